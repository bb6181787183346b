#include "net_plugin/nccl/functions.h"

#include <cstring>

#include "net_plugin/nccl/api_guard.h"
#include "src/base/format.h"

namespace bps::plugin::nccl {
namespace {

Status isNull(const char* what) { return {Code::kInvalidArgument, std::string(what) + " is a null pointer"}; }

Status unknownType(int type) {
  return failure(Code::kInvalidArgument,
                 "memory type {} is invalid: regMr accepts {} (host) and {} (CUDA), regMrDmaBuf accepts {} only", type,
                 abi::kPtrHost, abi::kPtrCuda, abi::kPtrCuda);
}

Status registerRegion(void* comm, const MemoryRegion& region, void** memory) {
  if (comm == nullptr || memory == nullptr) return isNull("the connection or the registration");
  *memory = nullptr;
  *memory = BPS_TRY(static_cast<Comm*>(comm)->registerMemory(region));
  return {};
}

}  // namespace

int devices(int* count) {
  return apiGuard([&]() -> Status {
    if (count == nullptr) return isNull("the number of devices");
    *count = static_cast<int>(deviceCount());
    return {};
  });
}

Status listenWith(const Context* context, int device, void* handle, void** listenComm) {
  if (handle == nullptr || listenComm == nullptr) return isNull("the handle or the listener");
  *listenComm = nullptr;
  const link::Device* local = BPS_TRY(deviceAt(device));
  std::unique_ptr<link::Listener> listener = BPS_TRY(context->listen(*local));
  const tcp::HandleBytes bytes = listener->handle();
  std::memcpy(handle, bytes.data(), bytes.size());
  *listenComm = listener.release();
  return {};
}

Status connectWith(Context* context, int device, void* handle, void** sendComm) {
  if (handle == nullptr || sendComm == nullptr) return isNull("the handle or the connection");
  *sendComm = nullptr;
  const std::span<const uint8_t> bytes(static_cast<const uint8_t*>(handle), abi::kHandleBytes);
  const link::Device* local = BPS_TRY(deviceAt(device));
  *sendComm = BPS_TRY(context->connect(*local, bytes)).release();
  return {};
}

int accept(void* listenComm, void** recvComm, abi::DeviceHandle**) {
  return apiGuard([&]() -> Status {
    if (listenComm == nullptr || recvComm == nullptr) return isNull("the listener or the connection");
    *recvComm = nullptr;
    std::unique_ptr<Comm> comm = BPS_TRY(static_cast<link::Listener*>(listenComm)->accept());
    *recvComm = comm.release();
    return {};
  });
}

int registerMemory(void* comm, void* data, size_t bytes, int type, void** memory) {
  return apiGuard([&]() -> Status {
    if (type != abi::kPtrHost && type != abi::kPtrCuda) return unknownType(type);
    return registerRegion(comm, {.data = data, .bytes = bytes, .onGpu = type == abi::kPtrCuda}, memory);
  });
}

// NOLINTNEXTLINE(readability-function-size): the interface's parameters
int registerDmaBuf(void* comm, void* data, size_t bytes, int type, uint64_t offset, int fd, void** memory) {
  return apiGuard([&]() -> Status {
    if (type != abi::kPtrCuda) return unknownType(type);
    if (fd < 0) return failure(Code::kInvalidArgument, "regMrDmaBuf: invalid descriptor {}", fd);
    return registerRegion(comm, {.data = data, .bytes = bytes, .onGpu = true, .dmaBuf = fd, .offset = offset}, memory);
  });
}

int deregisterMemory(void* comm, void* memory) {
  return apiGuard([&] {
    if (comm != nullptr && memory != nullptr) static_cast<Comm*>(comm)->deregisterMemory(memory);
  });
}

Status post(void* comm, const PostArgs& message, void** request) {
  if (request == nullptr) return isNull("the request");
  *request = nullptr;
  if (comm == nullptr || (message.data == nullptr && message.bytes > 0)) return isNull("the connection or the buffer");
  Request* posted = BPS_TRY(static_cast<Comm*>(comm)->post(message.data, message.bytes, message.memory));
  if (posted != nullptr) *request = posted->handle();
  return {};
}

// NOLINTNEXTLINE(readability-function-size): the interface's parameters
int flush(void* comm, int n, void** data, int* sizes, void** memory, void** request) {
  return apiGuard([&]() -> Status {
    if (request == nullptr) return isNull("the request");
    *request = nullptr;
    if (comm == nullptr) return isNull("the connection");
    if (n != 1 || data == nullptr || sizes == nullptr || memory == nullptr || sizes[0] <= 0) return {};
    Request* flushing =
        BPS_TRY(static_cast<Comm*>(comm)->flushMemory(data[0], static_cast<size_t>(sizes[0]), memory[0]));
    if (flushing != nullptr) *request = flushing->handle();
    return {};
  });
}

int test(void* handle, int* done, int* sizes) {
  return apiGuard([&]() -> Status {
    if (done == nullptr) return isNull("the result");
    *done = 0;
    Request* request = Request::fromHandle(handle);
    if (request == nullptr) return {Code::kInvalidArgument, "test of a request that is not in flight"};
    const Completion completion = BPS_TRY(request->comm->test(*request));
    *done = completion.done ? 1 : 0;
    if (completion.done && sizes != nullptr) *sizes = static_cast<int>(completion.bytes);
    return {};
  });
}

int closeComm(void* comm) {
  delete static_cast<Comm*>(comm);
  return abi::kSuccess;
}

int closeListener(void* listenComm) {
  delete static_cast<link::Listener*>(listenComm);
  return abi::kSuccess;
}

}  // namespace bps::plugin::nccl
