// CopyRing: staging memory of one size for the contributions and the sums of segments (segments.h). The memory is a
// ring: a segment takes the memory behind the segment before it, and its memory is free when it is copied back.
//
// Only the thread that makes the calls uses a CopyRing, except for its memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "src/cuda/memory/gpu_memory.h"
#include "src/cuda/pinned_memory.h"

namespace bps::cuda {

class CopyRing {
 public:
  // Has room for `bytes` of contributions and as many bytes of sums, in pinned memory and, if `gpu` is true and the
  // device has the memory, also in memory of the device.
  static Result<std::unique_ptr<CopyRing>> create(const Device& device, size_t bytes, bool gpu);

  struct Room {
    size_t offset = 0;   // of the contributions, and of the sums
    uint64_t after = 0;  // the room is free when all segments below this number are copied back
  };
  // Takes room for the segment with this number. Numbers grow. `bytes` is at most bytes().
  Room take(size_t bytes, uint64_t segment);
  size_t bytes() const { return bytes_; }
  GpuMemory* gpu() const { return gpu_.get(); }  // may be null
  int gpuFd() const { return gpuFd_.get(); }     // the file descriptor of GpuMemory::dmaBuf()
  uint8_t* contributions(bool onGpu) const { return onGpu ? gpu_->data() : pinned_.data(); }
  uint8_t* sums(bool onGpu) const { return contributions(onGpu) + bytes_; }

 private:
  CopyRing(PinnedMemory pinned, std::unique_ptr<GpuMemory> gpu, size_t bytes)
      : pinned_(std::move(pinned)), gpu_(std::move(gpu)), bytes_(bytes) {
    if (gpu_ != nullptr) gpuFd_ = gpu_->dmaBuf();
  }

  struct Taken {
    size_t begin, end;
    uint64_t segment;
  };
  PinnedMemory pinned_;
  std::unique_ptr<GpuMemory> gpu_;
  UniqueFd gpuFd_;
  const size_t bytes_;
  size_t next_ = 0;
  std::deque<Taken> taken_;  // the oldest segment first
};

}  // namespace bps::cuda
