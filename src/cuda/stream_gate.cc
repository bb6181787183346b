#include "src/cuda/stream_gate.h"

#include "src/base/format.h"
#include "src/cuda/stream_order.h"

namespace bps::cuda {
namespace {

// True if a counter that may wrap around has reached the number.
bool hasReached(uint32_t counter, uint32_t number) { return static_cast<int32_t>(counter - number) >= 0; }

// The argument of a host function. The host function frees it by take().
template <class T>
struct Argument {
  T value;
  static void* of(T value) { return new Argument{std::move(value)}; }
  static T take(void* argument) {
    const std::unique_ptr<Argument> owner(static_cast<Argument*>(argument));
    return std::move(owner->value);
  }
};

}  // namespace

Result<std::shared_ptr<CompletionCounter>> CompletionCounter::create(const Device& device) {
  const PinnedCell cell = BPS_TRY(PinnedCell::take(device));
  return std::shared_ptr<CompletionCounter>(new CompletionCounter(device, cell));
}

CompletionCounter::~CompletionCounter() { PinnedCell::recycle(device_, cell_); }

uint32_t CompletionCounter::issue() {
  MutexLock lock(mutex_);
  return ++issued_;
}

void CompletionCounter::complete(uint32_t number) {
  MutexLock lock(mutex_);
  completedOutOfOrder_.insert(number);
  while (completedOutOfOrder_.erase(completed_ + 1) > 0) ++completed_;
  std::atomic_ref<uint32_t>(*cell_.word()).store(completed_, std::memory_order_release);
  changed_.notifyAll();
}

void CompletionCounter::waitFor(uint32_t number) {
  MutexLock lock(mutex_);
  // This wait ends, because every call ends (see ProgressEngine).
  while (!hasReached(completed_, number))
    changed_.waitUntil(mutex_, std::chrono::steady_clock::now() + std::chrono::seconds(1));
}

void StreamGate::open() {
  counter_->complete(number_);
  // A stream that has not reached the call may still write the scalar. In that case the scalar's
  // cell is never reused.
  if (scalar_.data != nullptr && reached()) PinnedCell::recycle(*device_, std::exchange(scalar_, {}));
}

Result<std::unique_ptr<StreamGates>> StreamGates::create(const Device& device, std::shared_ptr<const Doorbell> bell) {
  std::unique_ptr<StreamGates> gates(new StreamGates(device));
  gates->bell_ = std::move(bell);
  gates->counter_ = BPS_TRY(CompletionCounter::create(device));
  if (!device.hasStreamMemOps()) gates->helperStream_ = BPS_TRY(OwnedStream::create(device));
  return gates;
}

Status StreamGates::checkNotCaptured(Stream stream) const {
  const Api& api = device_.api();
  int status = kNotCapturing;
  const int error = api.streamIsCapturing(stream, &status);
  if (error == kCaptureImplicit || (error == kSuccess && status != kNotCapturing))
    return failure(Code::kInvalidUsage,
                   "stream {} is being captured into a graph; bps cannot take part in graphs, call it outside",
                   static_cast<const void*>(stream));
  return check(api, error, "cuStreamIsCapturing");
}

Result<std::shared_ptr<StreamGate>> StreamGates::enter(Stream stream, const void* scalar, size_t scalarBytes) {
  const ScopedContext scope(device_.api(), BPS_TRY(contextOf(device_, stream)));
  BPS_TRY(checkNotCaptured(stream));
  auto gate = std::make_shared<StreamGate>();
  gate->device_ = &device_;
  gate->counter_ = counter_;
  gate->arrival_->bell = bell_;
  if (scalar != nullptr) BPS_TRY(fetchScalar(*gate, stream, scalar, scalarBytes));
  BPS_TRY(signalReached(*gate, stream));
  gate->number_ = counter_->issue();
  Status held = device_.hasStreamMemOps() ? addMemoryWait(*gate, stream) : addHostFunctionWait(*gate, stream);
  if (!held.ok()) gate->open();
  BPS_TRY(std::move(held));
  return gate;
}

Status StreamGates::fetchScalar(StreamGate& gate, Stream stream, const void* scalar, size_t bytes) const {
  gate.scalar_ = BPS_TRY(PinnedCell::take(device_));
  const Address to = gate.scalar_.address + PinnedCell::kScalarOffset;
  return check(device_.api(), device_.api().memcpyAsync(to, reinterpret_cast<Address>(scalar), bytes, stream),
               "cuMemcpyAsync of the operation's scalar");
}

Status StreamGates::signalReached(const StreamGate& gate, Stream stream) const {
  using ArrivalArgument = Argument<std::shared_ptr<StreamGate::Arrival>>;
  void* argument = ArrivalArgument::of(gate.arrival_);
  const auto notify = [](void* given) {
    const std::shared_ptr<StreamGate::Arrival> arrival = ArrivalArgument::take(given);
    arrival->reached.store(true, std::memory_order_release);
    arrival->bell->ring();
  };
  Status launched = check(device_.api(), device_.api().launchHostFunc(stream, notify, argument), "cuLaunchHostFunc");
  if (!launched.ok()) ArrivalArgument::take(argument);
  return launched;
}

Status StreamGates::addMemoryWait(const StreamGate& gate, Stream stream) {
  const Api& api = device_.api();
  return check(api, api.streamWaitValue32(stream, counter_->address(), gate.number_, kWaitGeq), "cuStreamWaitValue32");
}

Status StreamGates::addHostFunctionWait(const StreamGate& gate, Stream stream) {
  const Api& api = device_.api();
  // The blocking host function waits for `reached`. If it started earlier, it would delay the host
  // function that sets Arrival::reached.
  TemporaryEvent reached{api}, ended{api};
  BPS_TRY(check(api, api.eventCreate(&reached.event, kDisableTiming), "cuEventCreate"));
  BPS_TRY(check(api, api.eventRecord(reached.event, stream), "cuEventRecord"));
  BPS_TRY(blockHelperStream(gate, reached.event, ended.event));
  return check(api, api.streamWaitEvent(stream, ended.event, 0), "cuStreamWaitEvent");
}

// The helper stream waits for `reached` and for the end of the call, and then records `ended`.
Status StreamGates::blockHelperStream(const StreamGate& gate, Event reached, Event& ended) {
  struct Wait {
    std::shared_ptr<CompletionCounter> counter;
    uint32_t number;
  };
  const Api& api = device_.api();
  const ScopedContext scope(device_);
  BPS_TRY(check(api, api.streamWaitEvent(helperStream_->get(), reached, 0), "cuStreamWaitEvent"));
  void* argument = Argument<Wait>::of({counter_, gate.number_});
  const auto block = [](void* given) {
    const Wait wait = Argument<Wait>::take(given);
    wait.counter->waitFor(wait.number);
  };
  Status launched = check(api, api.launchHostFunc(helperStream_->get(), block, argument), "cuLaunchHostFunc");
  if (!launched.ok()) Argument<Wait>::take(argument);
  BPS_TRY(std::move(launched));
  BPS_TRY(check(api, api.eventCreate(&ended, kDisableTiming), "cuEventCreate"));
  return check(api, api.eventRecord(ended, helperStream_->get()), "cuEventRecord");
}

}  // namespace bps::cuda
