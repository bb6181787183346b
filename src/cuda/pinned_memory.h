// PinnedMemory: host memory that devices copy to and from at full speed, near the device. It belongs to all contexts.
//
// It is never unpinned (FreeList): what is given back is the next one's that is not larger.
#pragma once
#include <cstddef>
#include <cstdint>

#include "src/base/status.h"
#include "src/cuda/cuda_api.h"

namespace bps::cuda {

class Device;

class PinnedMemory {
 public:
  // Zeros.
  static Result<PinnedMemory> create(const Device& device, size_t bytes);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) = delete;
  // Gives it back; nothing may be under way in it.
  ~PinnedMemory();

  uint8_t* data() const { return region_.data; }
  size_t size() const { return bytes_; }
  Address address() const { return region_.address; }  // where devices see it

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
  size_t bytes_;  // of which so many are used
};

}  // namespace bps::cuda
