// StagedBuffers: the chunks of calls on CUDA streams. If the CPU cannot access a buffer of a call, the chunks are in
// staging memory. The copies are in streams since the call was issued (copy_queue.h). StagedBuffers reads how far they
// are, and tells the streams which sums have arrived, segment by segment.
//
// If a NIC can send from GPU memory to the owner of a chunk (GPUDirect RDMA), the chunk is staged in memory of the
// device. This memory is registered with the NIC only once. A registration of the user's buffers would take longer
// than sending them. A sum never overwrites its contribution.
//
// On a machine with several ranks, the ring of the machine copies between staging memory and the rank's shared area
// (local_reducer.h). Only the holder of the progress lock (progress_engine.h) calls functions of StagedBuffers, except
// where a comment says otherwise. No function calls CUDA.
#pragma once
#include <atomic>
#include <chrono>
#include <deque>
#include <span>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/mutex.h"
#include "src/comm/call/chunk_buffers.h"
#include "src/cuda/staging/copy_queue.h"

namespace bps {

class StagedBuffers final : public ChunkBuffers {
 public:
  // Enables GPUDirect RDMA. Call setGpuRegistrar() before the first all-reduce. The registrar must
  // outlive the last step().
  void setGpuRegistrar(GpuRegionRegistrar* registrar) { gpuRegistrar_ = registrar; }
  // A copy that takes longer counts as a failure. Call setCopyTimeout() before the first all-reduce.
  void setCopyTimeout(std::chrono::nanoseconds timeout) { copyTimeout_ = timeout; }

  // Only the thread that makes the calls uses the next three functions.
  bool usesGpuMemory() const { return gpuRegistrar_ != nullptr; }
  void setQueue(cuda::CopyQueue& queue) { queue_.store(&queue, std::memory_order_release); }
  // Decides which chunks of a call are staged in memory of the device.
  void placeOnGpu(std::span<ChunkRef> chunks);

  // Adds the chunks of a call that begins, in call order. `call` must exist until its `remaining` is 0.
  void submit(const Collective& call);
  // Returns whether a copy has ended, and fails if copies hang.
  Result<bool> step();
  // True if step() has seen that all contributions of the call are copied out.
  bool copiedOut(const Collective& call) const {
    return call.staging->firstSegment + call.staging->chunksOf.size() <= copiedOut_;
  }
  // True if contributions of calls that have begun are being copied out. If sums are missing, the copies may wait for
  // their memory, and so for other ranks.
  bool copying() const { return copiedOut_ < submitted_ && summed_ == copiedOut_; }
  // True if a stream has not reached a call yet or copies out. No event wakes a thread then.
  bool awaitsStream() const { return queue() != nullptr && !queue()->allCopiedOut(); }
  // From now on, no call of the application stages chunks of this endpoint in memory of the device.
  void excludeFromGpu(size_t endpoint);

  bool ready(const Collective& call, size_t index) const override {
    return call.staging == nullptr ||
           queue()->copiedOut(call.staging->firstSegment + call.staging->places[index].segment);
  }
  ChunkView view(const Collective& call, size_t index) const override;
  void finished(Collective& call, size_t index) override;

 private:
  cuda::CopyQueue* queue() const { return queue_.load(std::memory_order_acquire); }
  void registerGpuMemory();

  std::chrono::nanoseconds copyTimeout_{};
  std::atomic<cuda::CopyQueue*> queue_{nullptr};  // null until the first call on CUDA
  bool begun_ = false;                            // a call on CUDA has begun, so the next numbers are valid
  uint64_t submitted_ = 0;                        // segments of calls that have begun
  uint64_t copiedOut_ = 0;                        // segments that step() has seen
  uint64_t summed_ = 0;                           // segments whose sums have arrived, in order
  std::deque<uint32_t> open_;                     // number of chunks without a sum, of each segment from summed_ on
  Deadline stallDeadline_ = Deadline::never();
  GpuRegionRegistrar* gpuRegistrar_ = nullptr;
  bool gpuRegistered_ = false;
  Mutex mutex_;
  std::vector<bool> reachable_ BPS_GUARDED_BY(mutex_);  // by endpoint: a NIC sends from GPU memory
};

}  // namespace bps
