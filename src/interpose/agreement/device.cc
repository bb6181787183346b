#include "src/interpose/agreement/device.h"

#include <cstdint>
#include <cstring>
#include <new>

#include "src/base/format.h"
#include "src/interpose/settings.h"

namespace bps::interpose {
namespace {

class HostMemory final : public DeviceMemory {
 public:
  static Result<std::unique_ptr<DeviceMemory>> allocate(size_t bytes) {
    auto made = std::make_unique<HostMemory>();
    if (bpsHostStreamCreate(&made->stream_) != bpsSuccess || bpsMemAlloc(&made->data_, bytes) != bpsSuccess)
      return failure(Code::kSystem, "{} bytes of host memory: {}", bytes, bpsGetLastError(nullptr));
    made->size_ = bytes;
    std::memset(made->data_, 0, bytes);
    return std::unique_ptr<DeviceMemory>(std::move(made));
  }
  ~HostMemory() override {
    if (stream_ != nullptr) (void)bpsHostStreamDestroy(stream_);
    (void)bpsMemFree(data_);
  }
  Status upload(size_t offset, std::span<const uint8_t> bytes) override {
    std::memcpy(static_cast<uint8_t*>(data_) + offset, bytes.data(), bytes.size());
    return {};
  }
  Status download(size_t offset, std::span<uint8_t> bytes) override {
    std::memcpy(bytes.data(), static_cast<const uint8_t*>(data_) + offset, bytes.size());
    return {};
  }
  Result<bool> idle() override {
    const bpsResult_t asked = bpsHostStreamQuery(stream_);
    if (asked == bpsInProgress) return false;
    if (asked != bpsSuccess) return failure(Code::kInternal, "host stream: {}", bpsGetErrorString(asked));
    return true;
  }
};

}  // namespace

bool buffersOnHost() { return settings().env.device == "host"; }

Status deviceUsable() {
  if (buffersOnHost()) return {};
  return {Code::kInvalidUsage, "this version of bps has no CUDA buffers"};
}

Result<std::unique_ptr<DeviceMemory>> DeviceMemory::allocate(int, size_t, size_t most) {
  return HostMemory::allocate(most);
}

bool capturing(cudaStream_t) { return false; }

}  // namespace bps::interpose
