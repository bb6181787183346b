// StreamGate: the place of one call in a stream of the application. The stream waits at the gate
// until the call has ended. In the stream, in this order, are:
//
//   earlier work
//   a host function, which sets `reached` and rings the doorbell
//   a wait until the communicator's counter is at least the number of the call
//   later work
//
// The host function neither blocks nor calls CUDA. The counter is in pinned memory. A stream that
// waits for the counter keeps no CPU busy and runs no GPU kernel. A communicator numbers its calls.
// If its counter has the value N, all calls up to number N have ended.
//
// Drivers before CUDA 11.7 cannot let a stream wait for a value in memory. With a driver before
// CUDA 11.7, a stream of bps runs a host function that blocks until the call has ended, and then
// records an event. The application's stream waits for this event. An old driver may run only one
// host function at a time. The blocking host function then delays host functions of the
// application. When bps opens a device with an old driver, bps logs a warning.
//
// A call and its communicator share the call's gate. enter() runs on the thread that issues the
// call. Any thread may call the other functions.
#pragma once
#include <atomic>
#include <memory>
#include <set>

#include "src/base/io/fd.h"
#include "src/base/mutex.h"
#include "src/cuda/device.h"
#include "src/cuda/pinned_cell.h"

namespace bps::cuda {

// Counts the calls that have ended. If a thread or stream sees the counter reach a call's number,
// it also sees all writes made before complete() of that number.
class CompletionCounter {
 public:
  static Result<std::shared_ptr<CompletionCounter>> create(const Device& device);
  ~CompletionCounter();

  uint32_t issue();  // returns the number of the next call
  // Calls may complete in any order. The counter stops before the first call that has not
  // completed.
  void complete(uint32_t number);
  void waitFor(uint32_t number);  // blocks
  Address address() const { return cell_.address; }

 private:
  CompletionCounter(const Device& device, const PinnedCell& cell)
      : device_(device), cell_(cell), issued_(*cell.word()), completed_(issued_) {}

  const Device& device_;
  PinnedCell cell_;
  Mutex mutex_;
  CondVar changed_;
  uint32_t issued_ BPS_GUARDED_BY(mutex_);
  uint32_t completed_ BPS_GUARDED_BY(mutex_);
  std::set<uint32_t> completedOutOfOrder_ BPS_GUARDED_BY(mutex_);
};

class StreamGate {
 public:
  // True if the stream has reached the call. All earlier work in the stream is then done.
  bool reached() const { return arrival_->reached.load(std::memory_order_acquire); }
  // Lets the stream continue as soon as all earlier gates are open too. Call open() once.
  void open();
  // Returns the copy of the scalar that was passed to enter(). The stream makes this copy when it
  // reaches the call.
  const void* scalar() const { return scalar_.scalar(); }

 private:
  friend class StreamGates;
  struct Arrival {
    std::atomic<bool> reached{false};
    std::shared_ptr<const Doorbell> bell;
  };

  const Device* device_ = nullptr;
  std::shared_ptr<Arrival> arrival_ = std::make_shared<Arrival>();
  std::shared_ptr<CompletionCounter> counter_;
  uint32_t number_ = 0;
  PinnedCell scalar_;
};

// The gates of one communicator.
class StreamGates {
 public:
  static Result<std::unique_ptr<StreamGates>> create(const Device& device, std::shared_ptr<const Doorbell> bell);

  // Puts a gate into the stream. If `scalar` is not null, the stream copies `scalarBytes` bytes of
  // device memory from `scalar`. Fails with kInvalidUsage if the stream is being captured into a
  // graph.
  Result<std::shared_ptr<StreamGate>> enter(Stream stream, const void* scalar, size_t scalarBytes);
  // Fails with kInvalidUsage if the stream is being captured into a graph. The stream's context
  // must be current.
  Status checkNotCaptured(Stream stream) const;

 private:
  explicit StreamGates(const Device& device) : device_(device) {}
  Status fetchScalar(StreamGate& gate, Stream stream, const void* scalar, size_t bytes) const;
  Status signalReached(const StreamGate& gate, Stream stream) const;
  Status addMemoryWait(const StreamGate& gate, Stream stream);
  Status addHostFunctionWait(const StreamGate& gate, Stream stream);
  Status blockHelperStream(const StreamGate& gate, Event reached, Event& ended);

  const Device& device_;
  std::shared_ptr<const Doorbell> bell_;
  std::shared_ptr<CompletionCounter> counter_;
  std::unique_ptr<OwnedStream> helperStream_;  // used only if streams cannot wait for a value
};

}  // namespace bps::cuda
