#include "tests/fake_cuda/state.h"

#include <cstdlib>
#include <cstring>

#include "tests/fake_cuda/fake_cuda.h"

namespace bps::fake {

State& state() {
  static auto* instance = new State;  // never destroyed: the threads of the queues use the state until the process ends
  return *instance;
}

Thread& thread() {
  thread_local Thread instance;
  return instance;
}

unsigned setting(const char* name, unsigned fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? static_cast<unsigned>(std::atoi(text)) : fallback;
}

int enter(const char* name) {
  const Lock lock(state().mutex);
  ++state().calls[name];
  const auto due = state().failures.find(name);
  if (due == state().failures.end() || --due->second.first > 0) return kSuccess;
  const int error = due->second.second;
  state().failures.erase(due);
  return error;
}

int enterInContext(const char* name) {
  const int failed = enter(name);
  if (failed != kSuccess) return failed;
  if (current() == nullptr) return kInvalidContext;
  Lock lock(state().mutex);
  if (std::strncmp(name, "cuCtx", 5) != 0) awaitContext(lock, *current());
  return kSuccess;
}

void awaitContext(Lock& lock, const Context& context) {
  if (strict()) state().changed.wait(lock, [&] { return !context.locked; });
}

void drainContext(Lock& lock, Context& context) {
  if (!strict()) return;
  awaitContext(lock, context);
  context.locked = true;
  std::vector<CompletionPtr> marks{context.legacy.last};
  for (const Stream* stream : context.streams) marks.push_back(stream->last);
  for (const CompletionPtr& completion : marks) state().changed.wait(lock, [&] { return completion->done; });
  context.locked = false;
  state().changed.notify_all();
}

int enterUnsafe(const char* name) {
  constexpr int kGlobal = 0, kRelaxed = 2;
  const int failed = enterInContext(name);
  if (failed != kSuccess || thread().captureMode == kRelaxed) return failed;
  const Lock lock(state().mutex);
  for (const auto& context : state().primary)
    for (Stream* stream : context->streams)
      if (stream->capture == Capture::kActive && stream->captureMode == kGlobal) {
        stream->capture = Capture::kInvalidated;
        return kCaptureUnsupported;
      }
  return kSuccess;
}

}  // namespace bps::fake

using namespace bps::fake;

FAKE_CUDA uint64_t fakeCudaCalls(const char* name) {
  const Lock lock(state().mutex);
  return state().calls[name];
}

FAKE_CUDA void fakeCudaFail(const char* name, unsigned after, int error) {
  const Lock lock(state().mutex);
  state().failures[name] = {after, error};
}

FAKE_CUDA void fakeCudaCopyRate(double bytesPerSecond) {
  const Lock lock(state().mutex);
  state().copyRate = bytesPerSecond;
}

FAKE_CUDA void* fakeCudaAlias(const void* pointer) { return alias(pointer); }

FAKE_CUDA int fakeCudaFirstLaunch(void* stream, void (*body)(void*), void* argument) {
  {
    Lock lock(state().mutex);
    drainContext(lock, *current());
  }
  return fakeCudaLaunch(stream, body, argument);
}

FAKE_CUDA int fakeCudaLaunch(void* stream, void (*body)(void*), void* argument) {
  Lock lock(state().mutex);
  awaitContext(lock, *streamOf(stream)->context);
  const CompletionPtr completion = enqueue(*streamOf(stream), [=] { body(argument); });
  if (setting("FAKE_CUDA_LAUNCH_BLOCKING", 0) != 0) state().changed.wait(lock, [&] { return completion->done; });
  return kSuccess;
}
