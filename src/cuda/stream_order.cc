#include "src/cuda/stream_order.h"

#include "src/base/format.h"

namespace bps::cuda {

Result<Context> contextOf(const Device& device, Stream stream) {
  const Api& api = device.api();
  Context context = nullptr;
  if (!isDefaultStream(stream)) {
    const ScopedContext scope(device);
    BPS_TRY(check(api, api.streamGetCtx(stream, &context), "cuStreamGetCtx")
                .within(fmt::format("stream {}", static_cast<const void*>(stream))));
    return context;
  }
  int current = -1;
  if (api.ctxGetCurrent(&context) != kSuccess || context == nullptr) return device.context();
  if (api.ctxGetDevice(&current) != kSuccess || current != device.ordinal()) return device.context();
  return context;
}

namespace {

Status waitForEvent(const Device& device, Stream later, Event event) {
  const Api& api = device.api();
  const ScopedContext scope(api, BPS_TRY(contextOf(device, later)));
  return check(api, api.streamWaitEvent(later, event, 0), "cuStreamWaitEvent");
}

}  // namespace

Status orderAfter(const Device& device, Stream later, Stream earlier) {
  const Api& api = device.api();
  TemporaryEvent passed{api};
  {
    const ScopedContext scope(api, BPS_TRY(contextOf(device, earlier)));
    BPS_TRY(check(api, api.eventCreate(&passed.event, kDisableTiming), "cuEventCreate"));
    BPS_TRY(check(api, api.eventRecord(passed.event, earlier), "cuEventRecord"));
  }
  return waitForEvent(device, later, passed.event);
}

Status orderAfter(const Device& device, Stream later, Stream earlier, const OwnedEvent& event) {
  const Api& api = device.api();
  Context context = BPS_TRY(contextOf(device, earlier));
  if (context != device.context()) return orderAfter(device, later, earlier);
  {
    const ScopedContext scope(api, context);
    BPS_TRY(check(api, api.eventRecord(event.get(), earlier), "cuEventRecord"));
  }
  return waitForEvent(device, later, event.get());
}

}  // namespace bps::cuda
