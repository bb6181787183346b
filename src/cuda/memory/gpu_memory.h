// GpuMemory: memory on a CUDA device that other devices of the machine may reach: it begins and ends at the borders
// that their drivers want. The CPU may not touch it.
//
// It is never freed (FreeList): what is given back is the next one's that is not larger.
#pragma once
#include <memory>

#include "src/base/io/fd.h"
#include "src/cuda/device.h"

namespace bps::cuda {

class GpuMemory {
 public:
  struct Region {
    Address allocation;
    size_t bytes;  // between the borders
  };
  static Result<std::unique_ptr<GpuMemory>> create(const Device& device, size_t bytes);
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  // Gives it back; nothing may be under way in it.
  ~GpuMemory();

  uint8_t* data() const { return data_; }
  size_t size() const { return bytes_; }
  // The kernel's name for all of it; none where the driver or the kernel cannot.
  UniqueFd dmaBuf() const;

 private:
  GpuMemory(const Device& device, const Region& region, size_t bytes);

  const Device& device_;
  Region region_;
  uint8_t* data_;
  size_t bytes_;
};

}  // namespace bps::cuda
