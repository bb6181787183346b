#include "src/cuda/staging/copy_ring.h"

#include "src/base/log.h"

namespace bps::cuda {

Result<std::unique_ptr<CopyRing>> CopyRing::create(const Device& device, size_t bytes, bool gpu) {
  PinnedMemory pinned = BPS_TRY(PinnedMemory::create(device, 2 * bytes));
  std::unique_ptr<GpuMemory> gpuMemory;
  if (gpu) {
    Result<std::unique_ptr<GpuMemory>> made = GpuMemory::create(device, 2 * bytes);
    if (made.ok()) gpuMemory = std::move(made).value();
    else logInfo(Subsystem::kColl, "GPUDirect RDMA is not used: {}", made.error().message());
  }
  return std::unique_ptr<CopyRing>(new CopyRing(std::move(pinned), std::move(gpuMemory), bytes));
}

CopyRing::Room CopyRing::take(size_t bytes, uint64_t segment) {
  Room room{next_, 0};
  const bool wraps = bytes > bytes_ - next_;
  if (wraps) room.offset = 0;
  const size_t end = room.offset + bytes;
  // The oldest segments are those behind next_, and after them those from the beginning of the ring.
  while (!taken_.empty()) {
    const Taken& oldest = taken_.front();
    const bool skipped = wraps && oldest.begin >= next_;
    const bool overlaps = oldest.begin < end && oldest.end > room.offset;
    if (!skipped && !overlaps) break;
    room.after = oldest.segment + 1;
    taken_.pop_front();
  }
  if (bytes > 0) taken_.push_back({room.offset, end, segment});
  next_ = end;
  return room;
}

}  // namespace bps::cuda
