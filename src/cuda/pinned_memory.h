// PinnedMemory: host memory near a device, which all devices copy to and from at full speed, in all contexts.
//
// The object owns its region until its destructor, which keeps the region pinned for the next object of no larger size
// (FreeList). Threads: any.
#pragma once
#include <cstddef>
#include <cstdint>

#include "src/base/status.h"
#include "src/cuda/cuda_api.h"

namespace bps::cuda {

class Device;

class PinnedMemory {
 public:
  // The memory is zero.
  static Result<PinnedMemory> create(const Device& device, size_t bytes);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) = delete;
  // No copy may be in flight in it.
  ~PinnedMemory();

  uint8_t* data() const { return region_.data; }
  size_t size() const { return bytes_; }
  Address address() const { return region_.address; }  // for devices

  struct Region {
    uint8_t* data;
    Address address;
    size_t bytes;
  };

 private:
  PinnedMemory(const Device& device, const Region& region, size_t bytes)
      : device_(&device), region_(region), bytes_(bytes) {}
  static Result<Region> pin(const Device& device, size_t bytes);

  const Device* device_;
  Region region_;
  size_t bytes_;  // used part of the region
};

}  // namespace bps::cuda
