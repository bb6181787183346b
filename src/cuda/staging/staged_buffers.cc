#include "src/cuda/staging/staged_buffers.h"

#include <utility>

#include "src/base/format.h"

namespace bps {

// The CPU of this machine also sums the chunks on the exchange path, so these chunks need host memory.
void StagedBuffers::placeOnGpu(std::span<ChunkRef> chunks) {
  if (gpuRegistrar_ == nullptr) return;
  const MutexLock lock(mutex_);
  if (reachable_.empty()) return;
  for (ChunkRef& chunk : chunks) chunk.onGpu = !chunk.usesExchangePath() && reachable_[chunk.owner];
}

void StagedBuffers::excludeFromGpu(size_t endpoint) {
  const MutexLock lock(mutex_);
  if (!reachable_.empty()) reachable_[endpoint] = false;
}

// The memory exists since the first call on CUDA, which itself does not use it.
void StagedBuffers::registerGpuMemory() {
  gpuRegistered_ = true;
  const cuda::CopyRing* ring = queue()->gpuRing();
  if (ring == nullptr || ring->gpu() == nullptr) return;
  std::vector<bool> reachable =
      gpuRegistrar_->registerGpuRegion({ring->gpu()->data(), ring->gpu()->size(), ring->gpuFd()});
  for (size_t endpoint = 0; endpoint < reachable.size(); ++endpoint)
    if (!gpuRegistrar_->carriesGpuMemory(endpoint)) reachable[endpoint] = false;
  const MutexLock lock(mutex_);
  reachable_ = std::move(reachable);
}

void StagedBuffers::submit(const Collective& call) {
  if (call.staging == nullptr) return;
  if (gpuRegistrar_ != nullptr && !gpuRegistered_) registerGpuMemory();
  const StagedCall& staging = *call.staging;
  if (!std::exchange(begun_, true)) copiedOut_ = summed_ = staging.firstSegment;
  open_.insert(open_.end(), staging.chunksOf.begin(), staging.chunksOf.end());
  submitted_ = staging.firstSegment + staging.chunksOf.size();
}

ChunkView StagedBuffers::view(const Collective& call, size_t index) const {
  const ChunkRef& chunk = call.chunks[index];
  const uint8_t* source = call.send + chunk.offset;
  uint8_t* target = call.recv + chunk.offset;
  if (call.stageSend) source = call.staging->places[index].contribution;
  if (call.stageRecv) target = call.staging->places[index].sum;
  if (!writesTarget(static_cast<CallOp>(call.call.op))) target = const_cast<uint8_t*>(source);
  return makeView(call, source, target, chunk);
}

Result<bool> StagedBuffers::step() {
  if (copiedOut_ == submitted_) return false;
  const uint64_t before = copiedOut_;
  while (copiedOut_ < submitted_ && queue()->copiedOut(copiedOut_)) ++copiedOut_;
  const bool moved = copiedOut_ > before;
  // If sums are missing, the next copy out may wait for their memory.
  if (moved || copiedOut_ == submitted_ || summed_ < copiedOut_) stallDeadline_ = Deadline::never();
  else if (stallDeadline_.at() == Deadline::never().at()) stallDeadline_ = Deadline::in(copyTimeout_);
  else if (stallDeadline_.passed())
    return failure(Code::kUnhandledCuda,
                   "a copy from a CUDA device has not ended for {:g} s: the device hangs, or streams that wait for the "
                   "copy occupy all its queues (CUDA_DEVICE_MAX_CONNECTIONS is their number)",
                   std::chrono::duration<double>(copyTimeout_).count());
  return moved;
}

void StagedBuffers::finished(Collective& call, size_t index) {
  --call.remaining;
  if (call.staging == nullptr) return;
  const uint64_t segment = call.staging->firstSegment + call.staging->places[index].segment;
  --open_[segment - summed_];
  const uint64_t before = summed_;
  for (; !open_.empty() && open_.front() == 0; open_.pop_front()) ++summed_;
  if (summed_ > before) queue()->setSummed(summed_);
}

}  // namespace bps
