// PinnedMemory: host memory near a device. All devices copy to and from PinnedMemory at full speed,
// in all contexts.
//
// A PinnedMemory holds its region until its destructor runs. The destructor keeps the region pinned
// in a FreeList, for a later object of the same or a smaller size. Any thread may call these
// functions.
#pragma once
#include <cstddef>
#include <cstdint>

#include "src/base/status.h"
#include "src/cuda/cuda_api.h"

namespace bps::cuda {

class Device;

class PinnedMemory {
 public:
  // Returns memory that is filled with zeros.
  static Result<PinnedMemory> create(const Device& device, size_t bytes);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) = delete;
  // No copy to or from the memory may be in flight.
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
  size_t bytes_;  // bytes of the region that this object uses
};

}  // namespace bps::cuda
