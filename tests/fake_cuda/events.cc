// The fake driver's events and its capture of streams.
#include "tests/fake_cuda/state.h"

using namespace bps::fake;

FAKE_CUDA int cuEventCreate(void** event, unsigned) {
  const int failed = enterInContext("cuEventCreate");
  if (failed != kSuccess) return failed;
  Lock lock(state().mutex);
  drainContext(lock, *current());
  return *event = new Event{current(), nullptr}, kSuccess;
}

FAKE_CUDA int cuEventDestroy_v2(void* event) {
  const int failed = enterInContext("cuEventDestroy_v2");
  if (failed != kSuccess) return failed;
  delete static_cast<Event*>(event);
  return kSuccess;
}

FAKE_CUDA int cuEventRecord(void* event, void* stream) {
  const int failed = enterInContext("cuEventRecord");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  Stream* into = streamOf(stream);
  auto* recorded = static_cast<Event*>(event);
  if (into->context != recorded->context) return kInvalidHandle;
  recorded->completion = enqueue(*into, [] {});
  return kSuccess;
}

FAKE_CUDA int cuEventQuery(void* event) {
  const int failed = enterUnsafe("cuEventQuery");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  const CompletionPtr& completion = static_cast<Event*>(event)->completion;
  return completion == nullptr || completion->done ? kSuccess : kNotReady;
}

FAKE_CUDA int cuEventSynchronize(void* event) {
  const int failed = enterUnsafe("cuEventSynchronize");
  if (failed != kSuccess) return failed;
  Lock lock(state().mutex);
  const CompletionPtr completion = static_cast<Event*>(event)->completion;
  state().changed.wait(lock, [&] { return completion == nullptr || completion->done; });
  return kSuccess;
}

FAKE_CUDA int cuStreamBeginCapture_v2(void* handle, int mode) {
  const int failed = enterInContext("cuStreamBeginCapture_v2");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  Stream* stream = streamOf(handle);
  if (stream == &stream->context->legacy) return kCaptureUnsupported;
  stream->capture = Capture::kActive;
  stream->captureMode = mode;
  return kSuccess;
}

FAKE_CUDA int cuStreamEndCapture(void* handle, void** graph) {
  const int failed = enterInContext("cuStreamEndCapture");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  Stream* stream = streamOf(handle);
  const bool invalidated = stream->capture == Capture::kInvalidated;
  stream->capture = Capture::kNone;
  *graph = nullptr;
  return invalidated ? kCaptureInvalidated : kSuccess;
}

FAKE_CUDA int cuStreamIsCapturing(void* handle, int* status) {
  const int failed = enterInContext("cuStreamIsCapturing");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  const Stream* stream = streamOf(handle);
  *status = static_cast<int>(stream->capture);
  if (stream != &stream->context->legacy) return kSuccess;
  for (const Stream* other : stream->context->streams)
    if (other->blocking && other->capture != Capture::kNone) return kCaptureImplicit;
  return kSuccess;
}

FAKE_CUDA int cuThreadExchangeStreamCaptureMode(int* mode) {
  const int failed = enter("cuThreadExchangeStreamCaptureMode");
  if (failed != kSuccess) return failed;
  std::swap(*mode, thread().captureMode);
  return kSuccess;
}
