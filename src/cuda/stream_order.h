// Order between streams, of the application's and of bps's own.
//
// Threads: any.
#pragma once
#include "src/cuda/device.h"

namespace bps::cuda {

// The context in which the stream is called. Default streams are those of the thread's context if it is one of the
// device, else of bps's own.
Result<Context> contextOf(const Device& device, Stream stream);

// An event for one use: the stream may belong to any context.
struct TemporaryEvent {
  const Api& api;
  Event event = nullptr;
  ~TemporaryEvent() {
    if (event != nullptr) api.eventDestroy(event);  // who waits for it already is not disturbed
  }
};

// What is put into `later` from now on waits for what is in `earlier` now.
Status orderAfter(const Device& device, Stream later, Stream earlier);

}  // namespace bps::cuda
