// Order between streams of the application and of bps. Threads: any.
#pragma once
#include "src/cuda/device.h"

namespace bps::cuda {

// The context in which to use the stream. A default stream is that of the thread's current context if that is on the
// device, else of the primary context.
Result<Context> contextOf(const Device& device, Stream stream);

// An event for one use, in any context.
struct TemporaryEvent {
  const Api& api;
  Event event = nullptr;
  ~TemporaryEvent() {
    if (event != nullptr) api.eventDestroy(event);  // streams that wait for it already still do
  }
};

// Work that enters `later` from now on waits for the work that is in `earlier` now.
Status orderAfter(const Device& device, Stream later, Stream earlier);

}  // namespace bps::cuda
