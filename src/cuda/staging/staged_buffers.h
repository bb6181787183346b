// StagedBuffers: staging slots for the chunks of calls on memory that the CPU cannot access. A
// chunk uses one slot of pinned memory. The contribution of the chunk is copied from the device
// into one half of the slot. The sum arrives in the other half and is copied back.
//
//   submitted >= issued >= copied out (contribution in the slot)   in the order of the chunks, on one stream
//   sum arrived -> copying back -> slot free, chunk done           in the order of arrival, on another stream
//
// Chunk q uses slot q % slots, after the slot's previous chunk is done. The oldest unfinished chunk
// always has a slot, so some chunk can always proceed. Lanes that finish chunks in different orders
// therefore cannot deadlock. The two streams of StagedBuffers only copy, and a copy is issued only
// when it has nothing to wait for. The copies therefore never block the queues of the device.
//
// If a NIC can send from GPU memory to the owner of a chunk (GPUDirect RDMA), the chunk's slot is
// in memory of the device. The memory of the slots is registered with the NIC only once. A
// registration of the user's buffers would take longer than sending them. A sum never overwrites
// its contribution.
//
// On a machine with several ranks, StagedBuffers copies between the user's memory and the rank's
// shared area (local_reducer.h). Calls on memory that the CPU can access do not use StagedBuffers.
// Only the holder of the progress lock (progress_engine.h) calls functions of StagedBuffers, except
// prepare().
//
// Memory ordering: prepare() stores ring_ with release after it has made the ring. Other threads
// load ring_ with acquire. ring_ may be null until the first staged call.
#pragma once
#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/deadline.h"
#include "src/comm/call/chunk_buffers.h"
#include "src/cuda/device.h"
#include "src/cuda/memory/gpu_memory.h"
#include "src/cuda/pinned_memory.h"

namespace bps {

struct StagingShape {
  size_t slots = 0;
  size_t slotBytes = 0;                    // the size of the largest chunk
  std::chrono::nanoseconds copyTimeout{};  // a copy that takes longer counts as a failure
};

class StagedBuffers final : public ChunkBuffers {
 public:
  StagedBuffers() = default;
  ~StagedBuffers() override;

  // Enables GPUDirect RDMA. Call setGpuRegistrar() before the first all-reduce. The registrar must
  // outlive the last step().
  void setGpuRegistrar(GpuRegionRegistrar* registrar) { gpuRegistrar_ = registrar; }
  // The application's thread calls prepare() before it submits a staged call. Only the first
  // prepare() has an effect.
  Status prepare(const cuda::Device& device, const StagingShape& shape);

  // Adds the chunks of `call`. Calls must be submitted in call order. `call` must exist until its
  // `remaining` is 0.
  void submit(Collective& call);
  // Issues copies, tests which copies have ended, and returns whether anything moved.
  Result<bool> step();
  // True if copies are in flight. Only step() notices that a copy has ended.
  bool copying() const { return count_.copiedOut < count_.issued || !pendingCopyBacks_.empty(); }
  // Waits for the copies that touch the buffers of calls, then forgets all calls.
  void abandon();

  bool ready(const Collective& call, size_t index) const override {
    return !call.staged() || call.firstStaged + index < count_.copiedOut;
  }
  ChunkView view(const Collective& call, size_t index) const override;
  void finished(Collective& call, size_t index) override;

 private:
  struct Slot {
    cuda::OwnedEvent copiedOut, copiedBack;
    bool inUse = false;
    bool onGpu = false;
  };
  struct Ring {
    cuda::PinnedMemory memory;
    std::unique_ptr<cuda::GpuMemory> gpu;  // null if no NIC accesses GPU memory
    std::unique_ptr<cuda::OwnedStream> out, back;
    std::vector<Slot> slots;
  };
  struct Count {  // of chunks
    uint64_t submitted = 0, issued = 0, copiedOut = 0;
  };
  struct PendingCopyBack {
    Collective* call;
    uint64_t chunk;
  };
  Ring* ring() const { return ring_.load(std::memory_order_acquire); }
  Slot& slotOf(uint64_t chunk) const { return ring()->slots[chunk % shape_.slots]; }
  uint8_t* contribution(uint64_t chunk) const {
    uint8_t* base = slotOf(chunk).onGpu ? ring()->gpu->data() : ring()->memory.data();
    return base + chunk % shape_.slots * 2 * shape_.slotBytes;
  }
  uint8_t* sum(uint64_t chunk) const { return contribution(chunk) + shape_.slotBytes; }
  static std::unique_ptr<cuda::GpuMemory> tryCreateGpuMemory(const cuda::Device& device, size_t bytes);
  bool isNicReachable(const ChunkRef& chunk);
  Status copyOut();
  Status copyBack(Collective& call, size_t index);
  Result<bool> testCopies();
  void finishChunk(Collective& call, uint64_t chunk);
  bool drainCopies(std::chrono::milliseconds timeout);

  const cuda::Device* device_ = nullptr;
  StagingShape shape_;
  std::atomic<Ring*> ring_{nullptr};  // freed by the destructor
  GpuRegionRegistrar* gpuRegistrar_ = nullptr;
  std::optional<std::vector<bool>> nicReachable_;  // indexed by endpoint; empty until the memory is registered
  std::deque<Collective*> issueQueue_;             // calls with chunks that are not issued yet
  size_t nextChunk_ = 0;                           // the next chunk of the first call in issueQueue_
  std::deque<PendingCopyBack> pendingCopyBacks_;
  Count count_;
  Deadline stallDeadline_ = Deadline::never();
  Status failure_;  // a failure in finished(), which step() returns
};

}  // namespace bps
