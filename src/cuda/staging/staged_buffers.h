// StagedBuffers: where the chunks of a call lie that uses memory which the CPU cannot reach. Each has a slot of pinned
// memory: its contribution is copied out of the device into one half, its sum arrives in the other and is copied back.
//
//   submitted >= issued >= copied out (contribution there)      in the order of the chunks, on one stream
//   sum arrived -> copying back -> slot free, chunk done        in the order of arrival, on another stream
//
// Chunk q uses slot q % slots, once the chunk that had it before is done. The oldest chunk always has a slot, so that
// the lanes, each in its own order, never wait for one another. Both streams only copy, and a copy is issued only when
// nothing is left that it would have to wait for: the device's queues are never held up by them.
//
// Chunks whose owners are reached without the host (GPUDirect RDMA) have their slot in memory of the device instead:
// the contribution is copied there, and the NIC reads it; the sum arrives there, and is copied. So the NIC knows one
// region for good, as registering the user's buffers would take longer than sending them; and a sum never arrives on
// top of its contribution.
//
// With several ranks on a machine it stands between the user's memory and the rank's areas (local_reducer.h). Calls on
// other memory pass through untouched. Belongs to who has the turn (progress_engine.h), but for prepare().
//
// Memory ordering: prepare() stores ring_ with release when all is made that it leads to; the others load it with
// acquire, and may find it null as long as no call is staged.
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
  size_t slotBytes = 0;                    // of the largest chunk
  std::chrono::nanoseconds copyTimeout{};  // with a copy that does not end
};

class StagedBuffers final : public ChunkBuffers {
 public:
  StagedBuffers() = default;
  ~StagedBuffers() override;

  // Who reaches owners without the host. Before the first call; outlives step().
  void setGpuRegistrar(GpuRegionRegistrar* carrier) { gpuRegistrar_ = carrier; }
  // The calling thread, before the first call that is staged is submitted. Does nothing when called again.
  Status prepare(const cuda::Device& device, const StagingShape& shape);

  // The call's chunks, in call order. The call stays until its remaining chunks are 0.
  void submit(Collective& call);
  // Issues copies, and looks which have ended; true when anything moved.
  Result<bool> step();
  // Copies are under way, whose end nothing but step() tells.
  bool copying() const { return copiedOut_ < issued_ || !pendingCopyBacks_.empty(); }
  // Forgets all calls, once the copies have ended that would still touch their buffers.
  void abandon();

  bool ready(const Collective& call, size_t index) const override {
    return !call.staged() || call.firstStaged + index < copiedOut_;
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
    std::unique_ptr<cuda::GpuMemory> gpu;  // null: nobody would reach it
    std::unique_ptr<cuda::OwnedStream> out, back;
    std::vector<Slot> slots;
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
  bool drainCopies(std::chrono::milliseconds copyTimeout);

  const cuda::Device* device_ = nullptr;
  StagingShape shape_;
  std::atomic<Ring*> ring_{nullptr};  // owned
  GpuRegionRegistrar* gpuRegistrar_ = nullptr;
  std::optional<std::vector<bool>> nicReachable_;  // by endpoint, once asked
  std::deque<Collective*> issueQueue_;             // calls with chunks that are not issued yet
  size_t nextChunk_ = 0;                           // of the next one in the first of them
  std::deque<PendingCopyBack> pendingCopyBacks_;
  uint64_t submitted_ = 0, issued_ = 0, copiedOut_ = 0;
  Deadline stallDeadline_ = Deadline::never();
  Status failure_;  // of finished()
};

}  // namespace bps
