// HostStream: an ordered queue of calls on host buffers. A HostStream replaces a CUDA stream on
// hosts without CUDA.
//
// Two calls conflict if one of them writes memory that the other call reads or writes. A call waits
// for the earlier calls of its stream that conflict with it. A call without such conflicts may
// start before earlier calls have ended. Only bps runs in a host stream, so an application cannot
// see the difference.
//
// Several threads may share a stream. The failure of a call is returned by the next synchronize()
// of the thread that made the call. The failure is also returned by the next synchronize() of any
// thread.
//
// Any thread may call any function. Memory ordering: a worker writes the buffers of a call before
// complete(). These writes are visible to every thread that has seen the end of the call through
// idle(), synchronize() or StreamEntry::done.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/buffer_range.h"
#include "src/base/mutex.h"
#include "src/base/process/fork_generation.h"
#include "src/base/status.h"
#include "src/comm/call/stream_position.h"

namespace bps {

class HostStream;
struct StreamEntry;

// Holds the first failure of a thread's calls in each stream, until the thread synchronizes.
class ThreadFailures {
 public:
  static std::shared_ptr<ThreadFailures> forThisThread();
  void record(uint64_t stream, const Status& failure);
  Status take(uint64_t stream);

 private:
  Mutex mutex_;
  std::map<uint64_t, Status> byStream_ BPS_GUARDED_BY(mutex_);
};

// Carries out the calls of a communicator in a stream. Any thread may call a StreamWorker.
class StreamWorker {
 public:
  virtual ~StreamWorker() = default;
  // Tells this worker that a call of another worker has ended. A call of this worker may wait for
  // that call.
  virtual void wake() = 0;
  // A thread that waits for `entry` calls this function and may move calls in it. Returns when the
  // entry is done or another thread has taken over the work.
  virtual void progressFor(const StreamEntry& entry) = 0;
};

// The place of one call in its stream.
struct StreamEntry final : StreamPosition {
  CallBuffers buffers;
  std::vector<CallBuffers> parts;  // of a fused call: the buffers of each call in it; `buffers` then covers all of them
  std::shared_ptr<HostStream> stream;
  std::shared_ptr<StreamWorker> worker;
  std::shared_ptr<ThreadFailures> caller;
  std::vector<std::shared_ptr<StreamEntry>> dependencies;  // earlier calls that this call waits for
  std::atomic<bool> done{false};
  std::vector<std::shared_ptr<StreamWorker>> dependents;  // woken when this call is done; guarded by the stream's mutex
  uint64_t position = 0;                                  // how many calls have entered the stream, with this one

  bool mayStart() const override;
  void complete(const Status& outcome) override;
};

class HostStream : public std::enable_shared_from_this<HostStream> {
 public:
  // Makes a new stream. find() returns it until destroy().
  static std::shared_ptr<HostStream> create();
  // Returns the stream with this handle, or null if there is none. The null handle is the process's default stream.
  static std::shared_ptr<HostStream> find(const void* handle);
  static void destroy(const void* handle);

  // Appends a call. If the call waits for an earlier call of another worker, the end of the earlier
  // call wakes `worker`.
  std::shared_ptr<StreamEntry> enter(const CallBuffers& buffers, std::shared_ptr<StreamWorker> worker);
  // Appends a fused call, whose calls have these buffers.
  std::shared_ptr<StreamEntry> enterFused(std::vector<CallBuffers> parts, std::shared_ptr<StreamWorker> worker);
  void complete(StreamEntry& entry, const Status& outcome);

  // An event is a number of calls: the first calls that have entered this stream. recordEvent() returns
  // the number until now.
  uint64_t recordEvent();
  // Returns null if calls of the event are still pending. Otherwise returns the first failure among the calls of the
  // event, unless a synchronize() has returned this failure.
  std::optional<Status> outcomeOf(uint64_t event);
  // Moves calls until those of the event have ended. Returns their outcome.
  Status synchronize(uint64_t event);

  bool idle();
  // Moves calls until the queue is empty. Returns the first failure of the calling thread's calls
  // since its last synchronize(). If these calls had no failure, returns the first failure that no
  // synchronize() has returned.
  Status synchronize();

 private:
  void append(const std::shared_ptr<StreamEntry>& entry);
  // Returns the last pending call of the event, or null if there is none.
  std::shared_ptr<StreamEntry> lastPendingOf(uint64_t event);
  void moveCallsOf(uint64_t event);
  Status takeFailure();
  // In a forked child process, forgets the calls of the parent process.
  void dropAfterFork() BPS_REQUIRES(mutex_);

  const uint64_t streamId_ = nextStreamId();  // unique in the process, even after destroy()
  static uint64_t nextStreamId();
  Mutex mutex_;
  CondVar changed_;
  unsigned forks_ BPS_GUARDED_BY(mutex_) = forkGeneration();
  std::deque<std::shared_ptr<StreamEntry>> pending_ BPS_GUARDED_BY(mutex_);
  uint64_t entered_ BPS_GUARDED_BY(mutex_) = 0;             // calls until now
  Status unreported_ BPS_GUARDED_BY(mutex_);                // the first failure that no synchronize() has returned
  uint64_t unreportedPosition_ BPS_GUARDED_BY(mutex_) = 0;  // of the call that failed with unreported_
};

}  // namespace bps
