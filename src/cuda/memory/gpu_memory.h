// GpuMemory: memory on a CUDA device that other devices of the machine may reach, aligned as their drivers require. The
// CPU must not touch it.
//
// The object owns its region until its destructor, which keeps it for the next object of no larger size (FreeList).
// Threads: any.
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
  // No copy may be in flight in it.
  ~GpuMemory();

  uint8_t* data() const { return data_; }
  size_t size() const { return bytes_; }
  // A file descriptor for the whole region; none if the driver or the kernel has no support.
  UniqueFd dmaBuf() const;

 private:
  GpuMemory(const Device& device, const Region& region, size_t bytes);

  const Device& device_;
  Region region_;
  uint8_t* data_;
  size_t bytes_;
};

}  // namespace bps::cuda
