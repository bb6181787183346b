// The C functions for host memory, registrations, host streams and their events.
#include <bps/bps_ext.h>

#include <cstdlib>

#include "src/api/api_guard.h"
#include "src/api/comm_handle.h"
#include "src/base/memory.h"

namespace bps {
namespace {

Result<std::shared_ptr<HostStream>> checkedStream(bpsHostStream_t stream) {
  std::shared_ptr<HostStream> found = HostStream::find(stream);
  if (found == nullptr) return badArgument("stream {} is not a host stream", static_cast<const void*>(stream));
  return found;
}

Status allocate(void** pointer, size_t bytes) {
  if (pointer == nullptr) return badArgument("pointer is NULL");
  *pointer = nullptr;
  if (bytes == 0) return {};
  if (bytes > SIZE_MAX - kPageBytes) return badArgument("bytes is {}, too large", bytes);
  *pointer = std::aligned_alloc(kPageBytes, roundUp(bytes, kPageBytes));
  if (*pointer == nullptr) return failure(Code::kSystem, "out of memory: {} bytes", bytes);
  return {};
}

Result<std::shared_ptr<HostStream>> streamOf(const bpsHostEvent_t* event) {
  if (event == nullptr) return badArgument("event is NULL");
  return checkedStream(event->stream);
}

}  // namespace
}  // namespace bps

using namespace bps;

bpsResult_t bpsMemAlloc(void** pointer, size_t bytes) {
  return apiGuard(__func__, [&] { return allocate(pointer, bytes); });
}

bpsResult_t bpsMemFree(void* pointer) {
  return apiGuard(__func__, [&] { std::free(pointer); });
}

// Every lane registers the memory that it sends and receives, so a registration by the user changes
// nothing. The handle of a registration is the buffer's address.
bpsResult_t bpsCommRegister(bpsComm_t comm, void* buffer, size_t bytes, void** handle) {
  return apiGuard(__func__, [&]() -> Status {
    if (buffer == nullptr || handle == nullptr)
      return badArgument("{} is NULL", buffer == nullptr ? "buffer" : "handle");
    if (bytes == 0) return badArgument("bytes is 0");
    BPS_TRY(readyCommunicator(comm));
    *handle = buffer;
    return {};
  });
}

bpsResult_t bpsCommDeregister(bpsComm_t comm, void* handle) {
  return apiGuard(__func__, [&]() -> Status {
    if (handle == nullptr) return badArgument("handle is NULL");
    BPS_TRY(checkedHandle(comm));
    return {};
  });
}

bpsResult_t bpsHostStreamCreate(bpsHostStream_t* stream) {
  return apiGuard(__func__, [&]() -> Status {
    if (stream == nullptr) return badArgument("stream is NULL");
    *stream = reinterpret_cast<bpsHostStream_t>(HostStream::create().get());
    return {};
  });
}

bpsResult_t bpsHostStreamDestroy(bpsHostStream_t stream) {
  return apiGuard(__func__, [&]() -> Status {
    if (stream == nullptr) return badArgument("the default stream cannot be destroyed");
    const std::shared_ptr<HostStream> found = BPS_TRY(checkedStream(stream));
    Status outcome = found->synchronize();
    HostStream::destroy(stream);
    return outcome;
  });
}

bpsResult_t bpsHostStreamQuery(bpsHostStream_t stream) {
  return apiGuard(__func__, [&]() -> Status {
    if (BPS_TRY(checkedStream(stream))->idle()) return {};
    return {Code::kInProgress, "calls are in the stream"};
  });
}

bpsResult_t bpsHostStreamSynchronize(bpsHostStream_t stream) {
  return apiGuard(__func__, [&]() -> Status { return BPS_TRY(checkedStream(stream))->synchronize(); });
}

bpsResult_t bpsHostEventRecord(bpsHostEvent_t* event, bpsHostStream_t stream) {
  return apiGuard(__func__, [&]() -> Status {
    if (event == nullptr) return badArgument("event is NULL");
    *event = {stream, BPS_TRY(checkedStream(stream))->recordEvent()};
    return {};
  });
}

bpsResult_t bpsHostEventQuery(const bpsHostEvent_t* event) {
  return apiGuard(__func__, [&]() -> Status {
    std::optional<Status> outcome = BPS_TRY(streamOf(event))->outcomeOf(event->calls);
    return outcome ? std::move(*outcome) : Status(Code::kInProgress, "calls before the event are in the stream");
  });
}

bpsResult_t bpsHostEventSynchronize(const bpsHostEvent_t* event) {
  return apiGuard(__func__, [&]() -> Status { return BPS_TRY(streamOf(event))->synchronize(event->calls); });
}
