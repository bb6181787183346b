// StreamGate: the place of one call in a stream of the application, which waits there until the call has ended.
//
//   earlier work | host function: sets "reached", rings the doorbell | wait until the counter is at least N | later
//   work
//
// The host function neither blocks nor calls CUDA. The stream waits for a value in pinned memory, which takes neither a
// CPU nor a kernel. A communicator numbers its calls, and its counter is the number up to which all calls have ended.
//
// Drivers before CUDA 11.7 cannot wait for a value. There the stream waits for an event behind a blocking host function
// in a stream of bps. Such a driver may run one host function at a time, so that function delays the application's; a
// warning at the device's opening says so.
//
// Calls share their gates with the communicator. Threads: enter() on the thread that issues the call; the rest on any.
#pragma once
#include <atomic>
#include <memory>
#include <set>

#include "src/base/io/fd.h"
#include "src/base/mutex.h"
#include "src/cuda/device.h"
#include "src/cuda/pinned_cell.h"

namespace bps::cuda {

// Counts the calls that have ended. A thread or stream that sees a number sees all writes before its complete().
class CompletionCounter {
 public:
  static Result<std::shared_ptr<CompletionCounter>> create(const Device& device);
  ~CompletionCounter();

  uint32_t issue();  // the next call's number
  // Calls may complete in any order; the counter stops before the first one that has not.
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
  // True: the stream has reached the call, so its earlier work is done.
  bool reached() const { return arrival_->reached.load(std::memory_order_acquire); }
  // Lets the stream go on as soon as all earlier gates are open too. Called once.
  void open();
  // The value at `scalar` of enter() when the stream reached the call.
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

  // Puts a gate into the stream. If `scalar` is not null, the stream copies `scalarBytes` of device memory from there.
  // kInvalidUsage: the stream is being captured into a graph.
  Result<std::shared_ptr<StreamGate>> enter(Stream stream, const void* scalar, size_t scalarBytes);
  // kInvalidUsage if the stream is being captured. The stream's context must be current.
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
  std::unique_ptr<OwnedStream> helperStream_;  // only if streams cannot wait for a value
};

}  // namespace bps::cuda
