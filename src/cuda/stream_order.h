// Order between streams of the application and streams of bps. Any thread may call these functions.
#pragma once
#include "src/cuda/device.h"

namespace bps::cuda {

// Returns the CUDA context in which to use the stream. A default stream belongs to the thread's
// current context if that context is on the device, and otherwise to the primary context.
Result<Context> contextOf(const Device& device, Stream stream);

// A CUDA event for a single use. The stream that waits for the event may belong to a different CUDA
// context than the event.
struct TemporaryEvent {
  const Api& api;
  Event event = nullptr;
  ~TemporaryEvent() {
    if (event != nullptr) api.eventDestroy(event);  // streams that already wait for the event continue to wait
  }
};

// Makes later work in `later` wait for the work that is in `earlier` now.
Status orderAfter(const Device& device, Stream later, Stream earlier);
// As above, and avoids the creation of an event if `earlier` belongs to the primary context. A later call may use the
// same event.
Status orderAfter(const Device& device, Stream later, Stream earlier, const OwnedEvent& event);

}  // namespace bps::cuda
