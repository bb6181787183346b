// PinnedMemory: host memory that devices copy to and from at full speed, near the device. It belongs to all contexts.
#pragma once
#include <cstddef>
#include <cstdint>

#include "src/base/status.h"
#include "src/device/cuda_api.h"

namespace bps::cuda {

class Device;

class PinnedMemory {
 public:
  // Zeros.
  static Result<PinnedMemory> create(const Device& device, size_t bytes);
  PinnedMemory(PinnedMemory&& other) noexcept;
  PinnedMemory& operator=(PinnedMemory&&) = delete;
  // Nothing may be under way in it.
  ~PinnedMemory();

  uint8_t* data() const { return data_; }
  size_t size() const { return bytes_; }
  Address address() const { return address_; }  // where devices see it

 private:
  PinnedMemory(const Device& device, uint8_t* data, size_t bytes) : device_(&device), data_(data), bytes_(bytes) {}

  const Device* device_;
  uint8_t* data_;
  size_t bytes_;
  bool registered_ = false;
  Address address_ = 0;
};

}  // namespace bps::cuda
