#include "src/device/stream_gate.h"

#include "src/base/format.h"
#include "src/device/stream_order.h"

namespace bps::cuda {
namespace {

// Whether a number of a counter that wraps around has been reached.
bool isPast(uint32_t counter, uint32_t number) { return static_cast<int32_t>(counter - number) >= 0; }

// Host functions get a pointer to one of these, and free it.
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

Result<std::shared_ptr<DoneCounter>> DoneCounter::create(const Device& device) {
  const PinnedCell cell = BPS_TRY(PinnedCell::take(device));
  return std::shared_ptr<DoneCounter>(new DoneCounter(device, cell));
}

DoneCounter::~DoneCounter() { PinnedCell::giveBack(device_, cell_); }

uint32_t DoneCounter::issue() {
  MutexLock lock(mutex_);
  return ++issued_;
}

void DoneCounter::complete(uint32_t number) {
  MutexLock lock(mutex_);
  early_.insert(number);
  while (early_.erase(completed_ + 1) > 0) ++completed_;
  std::atomic_ref<uint32_t>(*cell_.word()).store(completed_, std::memory_order_release);
  changed_.notifyAll();
}

void DoneCounter::await(uint32_t number) {
  MutexLock lock(mutex_);
  // Ends because every call ends, see CallProgress.
  while (!isPast(completed_, number))
    changed_.waitUntil(mutex_, std::chrono::steady_clock::now() + std::chrono::seconds(1));
}

void StreamGate::open() {
  counter_->complete(number_);
  // Before the stream has come here, it may still write the scalar: then the cell is not used again.
  if (scalar_.data != nullptr && reached()) PinnedCell::giveBack(*device_, std::exchange(scalar_, {}));
}

Result<std::unique_ptr<StreamGates>> StreamGates::create(const Device& device, std::shared_ptr<const Doorbell> bell) {
  std::unique_ptr<StreamGates> gates(new StreamGates(device));
  gates->bell_ = std::move(bell);
  gates->counter_ = BPS_TRY(DoneCounter::create(device));
  if (!device.waitsInMemory()) gates->holder_ = BPS_TRY(OwnStream::create(device));
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
  const Scope scope(device_.api(), BPS_TRY(contextOf(device_, stream)));
  BPS_TRY(checkNotCaptured(stream));
  auto gate = std::make_shared<StreamGate>();
  gate->device_ = &device_;
  gate->counter_ = counter_;
  gate->point_->bell = bell_;
  if (scalar != nullptr) BPS_TRY(fetchScalar(*gate, stream, scalar, scalarBytes));
  BPS_TRY(announce(*gate, stream));
  gate->number_ = counter_->issue();
  Status held = device_.waitsInMemory() ? holdBack(*gate, stream) : holdBackByFunction(*gate, stream);
  if (!held.ok()) gate->open();
  BPS_TRY(std::move(held));
  return gate;
}

Status StreamGates::fetchScalar(StreamGate& gate, Stream stream, const void* scalar, size_t bytes) const {
  gate.scalar_ = BPS_TRY(PinnedCell::take(device_));
  const Address to = gate.scalar_.address + PinnedCell::kScalarAt;
  return check(device_.api(), device_.api().memcpyAsync(to, reinterpret_cast<Address>(scalar), bytes, stream),
               "cuMemcpyAsync of the operation's scalar");
}

Status StreamGates::announce(const StreamGate& gate, Stream stream) const {
  using PointArgument = Argument<std::shared_ptr<StreamGate::Point>>;
  void* argument = PointArgument::of(gate.point_);
  const auto tell = [](void* given) {
    const std::shared_ptr<StreamGate::Point> point = PointArgument::take(given);
    point->reached.store(true, std::memory_order_release);
    point->bell->ring();
  };
  Status launched = check(device_.api(), device_.api().launchHostFunc(stream, tell, argument), "cuLaunchHostFunc");
  if (!launched.ok()) PointArgument::take(argument);
  return launched;
}

Status StreamGates::holdBack(const StreamGate& gate, Stream stream) {
  const Api& api = device_.api();
  return check(api, api.streamWaitValue32(stream, counter_->address(), gate.number_, kWaitGeq), "cuStreamWaitValue32");
}

Status StreamGates::holdBackByFunction(const StreamGate& gate, Stream stream) {
  const Api& api = device_.api();
  // Not before the stream has come here: the function would stand in the way of the one that says so.
  PassingEvent reached{api}, ended{api};
  BPS_TRY(check(api, api.eventCreate(&reached.event, kDisableTiming), "cuEventCreate"));
  BPS_TRY(check(api, api.eventRecord(reached.event, stream), "cuEventRecord"));
  BPS_TRY(blockHolder(gate, reached.event, ended.event));
  return check(api, api.streamWaitEvent(stream, ended.event, 0), "cuStreamWaitEvent");
}

// In the stream of bps's own: waits for `reached`, then until the call has ended, and records `ended`.
Status StreamGates::blockHolder(const StreamGate& gate, Event reached, Event& ended) {
  struct Wait {
    std::shared_ptr<DoneCounter> counter;
    uint32_t number;
  };
  const Api& api = device_.api();
  const Scope scope(device_);
  BPS_TRY(check(api, api.streamWaitEvent(holder_->get(), reached, 0), "cuStreamWaitEvent"));
  void* argument = Argument<Wait>::of({counter_, gate.number_});
  const auto block = [](void* given) {
    const Wait wait = Argument<Wait>::take(given);
    wait.counter->await(wait.number);
  };
  Status launched = check(api, api.launchHostFunc(holder_->get(), block, argument), "cuLaunchHostFunc");
  if (!launched.ok()) Argument<Wait>::take(argument);
  BPS_TRY(std::move(launched));
  BPS_TRY(check(api, api.eventCreate(&ended, kDisableTiming), "cuEventCreate"));
  return check(api, api.eventRecord(ended, holder_->get()), "cuEventRecord");
}

}  // namespace bps::cuda
