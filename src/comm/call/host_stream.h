// HostStream: an ordered queue of calls on host buffers, the stand-in for a CUDA stream where there is none.
//
// A call may start before earlier calls of its stream have ended when their buffers have nothing to do with each other:
// nothing but bps runs in a host stream, so nobody can tell the difference. Where one reads or writes what another
// writes, the later one waits.
//
// A failed call is told to the thread that made it, by that thread's next synchronize(), and once more to whichever
// thread synchronizes first: several threads may share a stream, as they do the process's default one.
//
// Threads: any. Memory ordering: what a worker wrote into a call's buffers before complete() is visible to
// every thread that saw the call gone through query(), synchronize() or StreamEntry::done.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "src/base/mutex.h"
#include "src/base/process/fork_generation.h"
#include "src/base/status.h"
#include "src/comm/call/stream_position.h"

namespace bps {

class HostStream;
struct StreamEntry;

// The first failure of a thread's calls in each stream, until the thread synchronizes.
class ThreadFailures {
 public:
  static std::shared_ptr<ThreadFailures> forThisThread();
  void record(uint64_t stream, const Status& failure);
  Status take(uint64_t stream);

 private:
  Mutex mutex_;
  std::map<uint64_t, Status> byStream_ BPS_GUARDED_BY(mutex_);
};

// What carries out the calls of a stream: the progress of a communicator.
class StreamWorker {
 public:
  virtual ~StreamWorker() = default;
  // Any thread: a call that yours waited for is done.
  virtual void wake() = 0;
  // The calling thread waits for `entry` anyhow and may do the work itself. Returns when the entry is done, or when the
  // work is somebody else's now.
  virtual void progressFor(const StreamEntry& entry) = 0;
};

struct BufferRange {
  const void* begin = nullptr;
  size_t bytes = 0;
  bool overlaps(const BufferRange& other) const;
  bool covers(const BufferRange& other) const;
};

// One call's place in its stream.
struct StreamEntry final : StreamPosition {
  BufferRange reads, writes;
  std::shared_ptr<HostStream> stream;
  std::shared_ptr<StreamWorker> worker;
  std::shared_ptr<ThreadFailures> caller;
  std::vector<std::shared_ptr<StreamEntry>>
      dependencies;  // earlier calls whose buffers overlap, see HostStream::enter()
  std::atomic<bool> done{false};
  std::vector<std::shared_ptr<StreamWorker>> dependents;  // guarded by the stream's mutex: nudged when done

  bool mayStart() const override;
  void complete(const Status& outcome) override;
};

class HostStream : public std::enable_shared_from_this<HostStream> {
 public:
  // A new stream, known to find() until destroy().
  static std::shared_ptr<HostStream> create();
  // The stream behind a handle given by the application; null handle: the process's default stream. Null: no such
  // stream.
  static std::shared_ptr<HostStream> find(const void* handle);
  static void destroy(const void* handle);

  // A place at the end of the queue. `worker` is nudged when an earlier call that it waits for is done, unless it was
  // the one to do it.
  std::shared_ptr<StreamEntry> enter(BufferRange reads, BufferRange writes, std::shared_ptr<StreamWorker> worker);
  void complete(StreamEntry& entry, const Status& outcome);

  bool idle();
  // Waits until the queue is empty, and helps meanwhile. Returns the first failure that the calling thread's calls have
  // met since it last synchronized; without one, the first that no thread has been told of.
  Status synchronize();

 private:
  Status takeFailure();
  // In a forked child: the parent's calls are none of this process's.
  void dropAfterFork() BPS_REQUIRES(mutex_);

  const uint64_t streamId_ = nextStreamId();  // of all streams that the process has ever had
  static uint64_t nextStreamId();
  Mutex mutex_;
  CondVar changed_;
  unsigned forks_ BPS_GUARDED_BY(mutex_) = forkGeneration();
  std::deque<std::shared_ptr<StreamEntry>> pending_ BPS_GUARDED_BY(mutex_);
  Status unreported_ BPS_GUARDED_BY(mutex_);  // the first failure that no synchronize() has returned
};

}  // namespace bps
