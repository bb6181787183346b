#include "net_plugin/comm.h"

#include "net_plugin/abi.h"
#include "src/base/format.h"

namespace bps::plugin {
namespace {

constexpr uintptr_t kGenerationMask = alignof(Request) - 1;

}  // namespace

Request* Request::fromHandle(void* handle) {
  const auto bits = reinterpret_cast<uintptr_t>(handle);
  auto* request = reinterpret_cast<Request*>(bits & ~kGenerationMask);
  if (request == nullptr || request->state == State::kFree || request->generation != (bits & kGenerationMask))
    return nullptr;
  return request;
}

RequestRing::RequestRing(Comm* comm) {
  for (Request& request : requests_) request.comm = comm;
}

Request* RequestRing::post(void* data, size_t bytes, void* memory) {
  Request& request = at(end_);
  if (request.state != Request::State::kFree) return nullptr;
  request.data = static_cast<uint8_t*>(data);
  request.bytes = bytes;
  request.memory = memory;
  request.state = Request::State::kPosted;
  ++end_;
  return &request;
}

void RequestRing::finishFront(size_t bytes) {
  Request& request = front();
  request.bytes = bytes;
  request.state = Request::State::kDone;
  ++active_;
  ++done_;
}

void RequestRing::retire(Request& request) {
  request.state = Request::State::kFree;
  request.generation = (request.generation + 1) & kGenerationMask;
  --done_;
}

Result<void*> Comm::registerMemory(const MemoryRegion& memory) {
  if (memory.onGpu)
    return failure(
        Code::kInvalidUsage,
        "{} bytes of GPU memory cannot be registered: this connection does not use RDMA and supports host memory only "
        "(with NCCL_NET_GDR_LEVEL=LOC NCCL uses host memory only)",
        memory.bytes);
  return static_cast<void*>(nullptr);
}

int Comm::ptrSupport() const { return abi::kPtrHost; }

Result<Request*> Comm::post(void* data, size_t bytes, void* memory) {
  if (!failure_.ok()) return failure_.clone();
  if (bytes > kMaxMessageBytes)
    return failure(Code::kInvalidArgument, "a message of {} bytes exceeds the limit of {} bytes", bytes,
                   kMaxMessageBytes);
  return requests_.post(data, bytes, memory);
}

Result<Completion> Comm::test(Request& request) {
  if (request.state != Request::State::kDone && failure_.ok()) keepFirstFailure(progress());
  if (request.state == Request::State::kDone) {
    const Completion completion{true, request.bytes};
    requests_.retire(request);
    return completion;
  }
  if (!failure_.ok()) return failure_.clone();
  return Completion{};
}

void Comm::keepFirstFailure(Status outcome) {
  if (failure_.ok()) failure_ = std::move(outcome);
}

}  // namespace bps::plugin
