// The fake driver's streams and the operations in them.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <list>
#include <thread>

#include "tests/fake_cuda/state.h"

namespace bps::fake {
namespace {

using Body = void (*)(void*);

// Runs the operations of a queue until the queue is empty and no stream uses it any more.
void runQueue(const std::shared_ptr<Queue>& queue) {
  Lock lock(state().mutex);
  while (true) {
    state().changed.wait(lock, [&] { return !queue->operations.empty() || queue.use_count() == 1; });
    if (queue->operations.empty()) return;
    Operation operation = std::move(queue->operations.front());
    queue->operations.pop_front();
    state().changed.wait(lock, [&] {
      return std::all_of(operation.after.begin(), operation.after.end(),
                         [](const CompletionPtr& completion) { return completion->done; });
    });
    lock.unlock();
    operation.run();
    operation.run = nullptr;
    lock.lock();
    operation.completion->done = true;
    state().changed.notify_all();
  }
}

// The threads of all queues. The threads of destroyed streams must end before the process does: the
// leak checker crashes if a thread exits while the leak checker inspects all threads. The threads
// of other streams only wait, and nobody joins them.
class Workers {
 public:
  void start(const std::shared_ptr<Queue>& queue) {
    const std::lock_guard<std::mutex> lock(mutex_);
    workers_.remove_if(joined);
    Worker& worker = workers_.emplace_back();
    worker.queue = queue;
    worker.thread = std::thread([queue, done = worker.done] {
      runQueue(queue);
      *done = true;
    });
  }

  void settle() {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (std::chrono::steady_clock::now() < until) {
      workers_.remove_if(joined);
      if (std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.queue.use_count() > 1; }))
        return;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

 private:
  struct Worker {
    std::shared_ptr<std::atomic<bool>> done = std::make_shared<std::atomic<bool>>(false);
    std::weak_ptr<Queue> queue;
    std::thread thread;
  };
  static bool joined(Worker& worker) {
    if (!*worker.done) return false;
    worker.thread.join();
    return true;
  }

  std::mutex mutex_;
  std::list<Worker> workers_;
};

Workers& workers() {
  static Workers* const all = [] {
    (void)std::atexit([] { workers().settle(); });
    return new Workers;
  }();
  return *all;
}

std::shared_ptr<Queue> newQueue() {
  auto queue = std::make_shared<Queue>();
  workers().start(queue);
  return queue;
}

std::shared_ptr<Queue> queueFor(Context& context, int priority) {
  const size_t queues = setting("FAKE_CUDA_QUEUES", 0);
  if (queues == 0) return newQueue();
  auto& shared = context.shared[priority];
  if (shared.size() < queues) shared.push_back(newQueue());
  return shared[context.nextShared++ % shared.size()];
}

Stream* newStream(Context& context, bool blocking, int priority) {
  auto* stream = new Stream;
  stream->context = &context;
  stream->blocking = blocking;
  stream->queue = queueFor(context, priority);
  context.streams.push_back(stream);
  return stream;
}

void waitFor(const CompletionPtr& completion) {
  Lock lock(state().mutex);
  state().changed.wait(lock, [&] { return completion->done; });
}

void copy(void* to, const void* from, size_t bytes) {
  double rate = 0;
  {
    const Lock lock(state().mutex);
    rate = state().copyRate;
    state().calls["copied bytes"] += bytes;
  }
  std::memcpy(alias(to), alias(from), bytes);
  if (rate > 0) std::this_thread::sleep_for(std::chrono::duration<double>(static_cast<double>(bytes) / rate));
}

void runHostFunction(Body body, void* argument) {
  static std::mutex oneAtATime;
  std::unique_lock<std::mutex> turn(oneAtATime, std::defer_lock);
  if (strict() || setting("FAKE_CUDA_SERIAL_CALLBACKS", 0) != 0) turn.lock();
  body(argument);
}

}  // namespace

Stream* streamOf(void* handle) {
  const auto number = reinterpret_cast<uintptr_t>(handle);
  Context* context = current();
  if (number <= 1) {
    if (context->legacy.queue == nullptr) context->legacy.queue = queueFor(*context, 0);
    return &context->legacy;
  }
  if (number != 2) return static_cast<Stream*>(handle);
  Stream*& own = thread().defaultStreams[context];
  if (own == nullptr) own = newStream(*context, true, 0);
  return own;
}

// Waits until the queue has room for an operation, whatever the operation is. Releases the lock of the state while it
// waits, and holds the lock of the context if the driver is strict.
static void waitForRoom(Context& context, const Queue& queue) {
  const size_t depth = setting("FAKE_CUDA_DEPTH", strict() ? 64 : 0);
  if (depth == 0 || queue.operations.size() < depth) return;
  Lock lock(state().mutex, std::adopt_lock);
  awaitContext(lock, context);
  context.locked = strict();
  state().changed.wait(lock, [&] { return queue.operations.size() < depth; });
  context.locked = false;
  state().changed.notify_all();
  lock.release();
}

CompletionPtr enqueue(Stream& stream, std::function<void()> run, const CompletionPtr& after) {
  auto completion = std::make_shared<Completion>();
  if (stream.capture != Capture::kNone) return completion;
  waitForRoom(*stream.context, *stream.queue);
  Operation operation{{stream.last}, std::move(run), completion};
  Context& context = *stream.context;
  if (after != nullptr) operation.after.push_back(after);
  if (&stream == &context.legacy) {
    for (const Stream* other : context.streams)
      if (other->blocking) operation.after.push_back(other->last);
  } else if (stream.blocking) {
    operation.after.push_back(context.legacy.last);
  }
  stream.last = completion;
  stream.queue->operations.push_back(std::move(operation));
  state().changed.notify_all();
  return completion;
}

}  // namespace bps::fake

using namespace bps::fake;

FAKE_CUDA int cuStreamCreateWithPriority(void** stream, unsigned flags, int priority) {
  const int failed = enterUnsafe("cuStreamCreateWithPriority");
  if (failed != kSuccess) return failed;
  Lock lock(state().mutex);
  drainContext(lock, *current());
  return *stream = newStream(*current(), (flags & 1) == 0, priority), kSuccess;
}

FAKE_CUDA int cuStreamCreate(void** stream, unsigned flags) { return cuStreamCreateWithPriority(stream, flags, 0); }

FAKE_CUDA int cuStreamDestroy_v2(void* handle) {
  const int failed = enterInContext("cuStreamDestroy_v2");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  auto* stream = static_cast<Stream*>(handle);
  std::erase(stream->context->streams, stream);
  delete stream;  // the queue still runs the operations of the stream
  state().changed.notify_all();
  return kSuccess;
}

FAKE_CUDA int cuStreamQuery(void* stream) {
  const int failed = enterUnsafe("cuStreamQuery");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  return streamOf(stream)->last->done ? kSuccess : kNotReady;
}

FAKE_CUDA int cuStreamSynchronize(void* stream) {
  const int failed = enterUnsafe("cuStreamSynchronize");
  if (failed != kSuccess) return failed;
  CompletionPtr last;
  {
    const Lock lock(state().mutex);
    last = streamOf(stream)->last;
  }
  waitFor(last);
  return kSuccess;
}

FAKE_CUDA int cuStreamGetCtx(void* stream, void** context) {
  const int failed = enterInContext("cuStreamGetCtx");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  return *context = streamOf(stream)->context, kSuccess;
}

FAKE_CUDA int cuStreamWaitEvent(void* stream, void* event, unsigned) {
  const int failed = enterInContext("cuStreamWaitEvent");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  const CompletionPtr completion = static_cast<Event*>(event)->completion;
  if (completion != nullptr)
    enqueue(
        *streamOf(stream), [] {}, completion);
  return kSuccess;
}

FAKE_CUDA int cuLaunchHostFunc(void* stream, void (*body)(void*), void* argument) {
  const int failed = enterInContext("cuLaunchHostFunc");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  enqueue(*streamOf(stream), [=] { runHostFunction(body, argument); });
  return kSuccess;
}

// Puts a stream memory operation on a word into the stream.
static int enqueueMemOp(const char* name, void* stream, uintptr_t address, unsigned flags,
                        const std::function<void(std::atomic_ref<uint32_t> word)>& operation) {
  const int failed = enterInContext(name);
  if (failed != kSuccess) return failed;
  if (setting("FAKE_CUDA_MEM_OPS", 1) == 0) return kNotSupported;
  constexpr size_t kBytes = sizeof(uint32_t);
  if (flags != 0 || address % kBytes != 0 || isPageable(reinterpret_cast<void*>(address), kBytes)) return kInvalidValue;
  auto* word = static_cast<uint32_t*>(alias(reinterpret_cast<void*>(address)));
  const Lock lock(state().mutex);
  enqueue(*streamOf(stream), [=] { operation(std::atomic_ref<uint32_t>(*word)); });
  return kSuccess;
}

FAKE_CUDA int cuStreamWaitValue32_v2(void* stream, uintptr_t address, uint32_t value, unsigned flags) {
  return enqueueMemOp("cuStreamWaitValue32_v2", stream, address, flags, [value](std::atomic_ref<uint32_t> word) {
    while (static_cast<int32_t>(word.load() - value) < 0) std::this_thread::sleep_for(std::chrono::microseconds(20));
  });
}

FAKE_CUDA int cuStreamWriteValue32_v2(void* stream, uintptr_t address, uint32_t value, unsigned flags) {
  return enqueueMemOp("cuStreamWriteValue32_v2", stream, address, flags,
                      [value](std::atomic_ref<uint32_t> word) { word.store(value); });
}

FAKE_CUDA int cuMemcpyAsync(uintptr_t to, uintptr_t from, size_t bytes, void* stream) {
  const int failed = enterInContext("cuMemcpyAsync");
  if (failed != kSuccess) return failed;
  auto* target = reinterpret_cast<void*>(to);
  const auto* source = reinterpret_cast<const void*>(from);
  const bool heldUp = isPageable(target, bytes) || isPageable(source, bytes);
  CompletionPtr completion;
  {
    const Lock lock(state().mutex);
    if (heldUp) ++state().calls["pageable copy"];
    CompletionPtr& last = current()->lastCopy[isDeviceMemory(target) ? 1 : 0];
    completion = enqueue(
        *streamOf(stream), [=] { copy(target, source, bytes); }, strict() ? last : nullptr);
    last = completion;
  }
  if (heldUp) waitFor(completion);
  return kSuccess;
}

FAKE_CUDA int cuMemcpy(uintptr_t to, uintptr_t from, size_t bytes) {
  const int failed = enterUnsafe("cuMemcpy");
  if (failed != kSuccess) return failed;
  CompletionPtr completion;
  {
    const Lock lock(state().mutex);
    completion =
        enqueue(*streamOf(nullptr), [=] { copy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), bytes); });
  }
  waitFor(completion);
  return kSuccess;
}
