// StreamGate: the place of one call in a stream of the application, which waits there until the call has ended.
//
//   earlier work | a host function: "reached", rings the doorbell | wait until the counter is at least N | later work
//
// The host function neither blocks nor calls CUDA. The wait is one for a value in pinned memory, which costs neither
// the CPU nor a kernel. A communicator's calls are numbered, and its counter says up to which all have ended, so there
// is nothing to recycle.
//
// Where the driver cannot wait for a value, the stream waits for an event behind a host function that blocks, in a
// stream of bps's own. The driver may run the host functions of a process one at a time: then those of the application
// stand behind it. Nothing better is known for such drivers (before CUDA 11.7); a warning says so when the device is
// opened.
//
// Threads: enter() by the thread that issues the call; the rest by any.
#pragma once
#include <atomic>
#include <memory>
#include <set>

#include "src/base/io/fd.h"
#include "src/base/mutex.h"
#include "src/cuda/device.h"
#include "src/cuda/pinned_cell.h"

namespace bps::cuda {

// Calls that have ended. Memory ordering: what was written before complete() is visible to who sees the number.
class CompletionCounter {
 public:
  static Result<std::shared_ptr<CompletionCounter>> create(const Device& device);
  ~CompletionCounter();

  uint32_t issue();  // the next call's number
  // In any order; the word grows over those that lie without a gap.
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
  // The stream has come to the call: what was put into it before is done.
  bool reached() const { return arrival_->reached.load(std::memory_order_acquire); }
  // Lets the stream go on, once the calls before this one have been opened too. Once.
  void open();
  // What `scalar` of enter() pointed to, when the stream had reached the call.
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

// Those of one communicator.
class StreamGates {
 public:
  static Result<std::unique_ptr<StreamGates>> create(const Device& device, std::shared_ptr<const Doorbell> bell);

  // Puts a gate into the stream. With `scalar`, memory of a device, so many bytes of it are fetched in the order of the
  // stream. kInvalidUsage: the stream is being captured into a graph.
  Result<std::shared_ptr<StreamGate>> enter(Stream stream, const void* scalar, size_t scalarBytes);
  // kInvalidUsage if it is. The stream's context must be current.
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
  std::unique_ptr<OwnedStream> helperStream_;  // only where streams cannot wait in memory
};

}  // namespace bps::cuda
