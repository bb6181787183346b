// GpuMemory: memory on a CUDA device that other devices of the machine may access. GpuMemory is
// aligned as the drivers of other devices require. The CPU must not access GpuMemory.
//
// A GpuMemory holds its region until its destructor runs. The destructor keeps the region in a
// FreeList, for a later object of the same or a smaller size. Any thread may call these functions.
#pragma once
#include <memory>

#include "src/base/io/fd.h"
#include "src/cuda/device.h"

namespace bps::cuda {

class GpuMemory {
 public:
  struct Region {
    Address allocation;
    size_t bytes;  // aligned part
  };
  static Result<std::unique_ptr<GpuMemory>> create(const Device& device, size_t bytes);
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  // No copy to or from the memory may be in flight.
  ~GpuMemory();

  uint8_t* data() const { return data_; }
  size_t size() const { return bytes_; }
  // Returns a file descriptor for the whole region, or none if the driver or the kernel does not
  // support it.
  UniqueFd dmaBuf() const;

 private:
  GpuMemory(const Device& device, const Region& region, size_t bytes);

  const Device& device_;
  Region region_;
  uint8_t* data_;
  size_t bytes_;
};

}  // namespace bps::cuda
