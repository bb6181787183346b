// CopyQueue: the copies of one communicator's calls between its device and staging memory. Everything that the driver
// must do for a call is put into streams while the call is issued:
//
//   application's stream   event E0 .................................................. wait for E1, later work
//   out stream             wait for E0; for each segment: copy it out, write `out`
//   in stream              for each segment: wait for `out` and `in`, copy its sums in, write `back`; event E1
//
// `out`, `in` and `back` are words in pinned memory which count segments (segments.h). The progress thread only reads
// and writes words: it calls nothing of CUDA. A CUDA call could block behind a lock that another thread holds until the
// application's stream goes on: the first launch of a kernel, the release of memory and a full launch queue are such
// calls. If a segment reuses memory of the ring (copy_ring.h), the out stream first waits until `back` says that the
// memory is free.
//
// After a failure, `in` does not change, so the application's stream stands, as after a failure of NCCL. release() lets
// it go on: the application has aborted the communicator. The copies that are in the streams still run, so the buffers
// have undefined contents.
//
// A CopyQueue is never freed, because streams may reach its waits after the communicator is gone, and because freeing
// may block. A later communicator reuses a CopyQueue that has nothing left to do.
#pragma once
#include <atomic>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "src/base/mutex.h"
#include "src/comm/call/staged_call.h"
#include "src/cuda/device.h"
#include "src/cuda/staging/copy_ring.h"
#include "src/cuda/staging/segments.h"

namespace bps::cuda {

class CopyQueue {
 public:
  // Returns an unused CopyQueue of the device. If `gpuMemory` is true, its rings also have memory of the device.
  static Result<CopyQueue*> take(const Device& device, bool gpuMemory);
  // Any thread. The CopyQueue may be used again when its streams have passed everything that is in them.
  static void recycle(CopyQueue* queue);

  // The buffers of a call in device memory. A buffer that needs no copies is null.
  struct Buffers {
    const uint8_t* send = nullptr;
    uint8_t* recv = nullptr;
    const void* scalar = nullptr;  // the operation's scalar in device memory, or null
    size_t scalarBytes = 0;

    bool any() const { return send != nullptr || recv != nullptr; }
  };

  // A call with its place in the ring.
  struct PlacedCall {
    Buffers buffers;
    std::shared_ptr<const StagedCall> staged;
    SegmentPlan plan;
    std::vector<CopyRing::Room> rooms;  // of each segment
    CopyRing* ring = nullptr;
  };

  // Only the thread that makes the calls uses the next functions. After a failure the communicator cannot go on.
  // Takes room for a call with these chunks. Next, pass the call to the progress thread, and then to enqueue(): the
  // queues of the driver may have room for the call only while it makes progress.
  Result<PlacedCall> place(const Buffers& buffers, std::span<const ChunkRef> chunks);
  // Copies out wait for the work that is in `stream` now.
  Status follow(Stream stream);
  // Puts the copies of a call into the streams.
  Status enqueue(const PlacedCall& call);
  // Later work in `stream` waits for all calls that are enqueued.
  Status lead(Stream stream);

  // Any thread may use the next functions.
  bool copiedOut(uint64_t segment) const { return hasPassed(kOut, segment + 1); }
  uint64_t placed() const { return placed_.load(std::memory_order_acquire); }  // segments
  bool allCopiedOut() const { return hasPassed(kOut, placed()); }
  bool idle() const { return hasPassed(kBack, placed()); }
  // The sums of all segments below this number are in staging memory.
  void setSummed(uint64_t segments);
  void release();
  // True if all copies have ended of those calls that their streams have reached.
  bool reachedCallsEnded();
  // The ring whose GPU memory all segments use; null if there is none.
  const CopyRing* gpuRing() const { return usesGpu_ && !rings_.empty() ? rings_.front().get() : nullptr; }

 private:
  enum Word : uint8_t { kOut, kIn, kBack, kWords };
  CopyQueue(const Device& device, bool gpuMemory, PinnedMemory words)
      : device_(device), usesGpu_(gpuMemory), words_(std::move(words)) {}
  static Result<CopyQueue*> create(const Device& device, bool gpuMemory);
  std::atomic_ref<uint32_t> word(Word which) const;
  Address address(Word which) const;
  bool hasPassed(Word which, uint64_t count) const;
  Result<CopyRing*> ringFor(size_t callBytes);
  Status copyOut(const PlacedCall& call, size_t index) const;
  Status copyIn(const PlacedCall& call, size_t index) const;
  Status copy(const OwnedStream& stream, const void* to, const void* from, size_t bytes, const char* what) const;

  const Device& device_;
  const bool usesGpu_;
  const PinnedMemory words_;
  std::unique_ptr<OwnedStream> out_, in_;
  std::unique_ptr<OwnedEvent> reached_, ended_;   // E0 and E1
  std::vector<std::unique_ptr<CopyRing>> rings_;  // the last one is in use
  std::atomic<uint64_t> placed_{0};               // segments
  Mutex mutex_;
  bool released_ BPS_GUARDED_BY(mutex_) = false;
  std::deque<std::pair<uint64_t, uint64_t>> inFlight_ BPS_GUARDED_BY(mutex_);  // first segment and end of each call
};

}  // namespace bps::cuda
