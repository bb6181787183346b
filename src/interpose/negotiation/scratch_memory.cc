#include "src/interpose/negotiation/scratch_memory.h"

#include <cstdint>
#include <cstring>
#include <new>

#include "src/base/format.h"
#include "src/cuda/driver.h"
#include "src/cuda/memory/gpu_memory.h"

namespace bps::interpose {
namespace {

// Returns null if there is no CUDA driver. The real NCCL needs a device, so only the tests' replacement of NCCL runs
// without a driver.
const cuda::Api* driver() {
  static const cuda::Api* const found = [] {
    Result<const cuda::Api*> there = cuda::driver();
    return there.ok() ? std::move(there).value() : nullptr;
  }();
  return found;
}

class HostScratchMemory final : public ScratchMemory {
 public:
  static Result<std::unique_ptr<ScratchMemory>> allocate(size_t bytes) {
    auto made = std::make_unique<HostScratchMemory>();
    if (bpsHostStreamCreate(&made->stream_) != bpsSuccess || bpsMemAlloc(&made->data_, bytes) != bpsSuccess)
      return failure(Code::kSystem, "{} bytes of host memory: {}", bytes, bpsGetLastError(nullptr));
    made->size_ = bytes;
    std::memset(made->data_, 0, bytes);
    return std::unique_ptr<ScratchMemory>(std::move(made));
  }
  ~HostScratchMemory() override {
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

class CudaScratchMemory final : public ScratchMemory {
 public:
  static Result<std::unique_ptr<ScratchMemory>> allocate(int ordinal, size_t least, size_t most) {
    const cuda::Api* api = driver();
    cuda::Device* device = BPS_TRY(cuda::Device::open(*api, ordinal));
    const cuda::ScopedContext scope(*device);
    std::unique_ptr<CudaScratchMemory> made(new CudaScratchMemory(*device));
    made->own_ = BPS_TRY(cuda::OwnedStream::create(*device));
    made->stream_ = made->own_->get();
    Result<std::unique_ptr<cuda::GpuMemory>> memory = cuda::GpuMemory::create(*device, most);
    for (; !memory.ok() && most / 2 >= least; memory = cuda::GpuMemory::create(*device, most)) most /= 2;
    made->memory_ = BPS_TRY(std::move(memory));
    made->data_ = made->memory_->data();
    made->size_ = most;
    return std::unique_ptr<ScratchMemory>(std::move(made));
  }
  // If NCCL or a copy may still touch the memory, the destructor leaks the memory.
  ~CudaScratchMemory() override {
    if (Result<bool> done = own_ != nullptr ? own_->idle() : true; !done.ok() || !std::move(done).value())
      static_cast<void>(memory_.release());
  }
  Status upload(size_t offset, std::span<const uint8_t> bytes) override {
    return copy(address() + offset, reinterpret_cast<cuda::Address>(bytes.data()), bytes.size());
  }
  Status download(size_t offset, std::span<uint8_t> bytes) override {
    return copy(reinterpret_cast<cuda::Address>(bytes.data()), address() + offset, bytes.size());
  }
  Result<bool> idle() override { return own_->idle(); }

 private:
  explicit CudaScratchMemory(const cuda::Device& device) : device_(device) {}
  Status copy(cuda::Address to, cuda::Address from, size_t bytes) {
    const cuda::ScopedContext scope(device_);
    return cuda::check(device_.api(), device_.api().memcpyAsync(to, from, bytes, stream_), "cuMemcpyAsync");
  }

  cuda::Address address() const { return reinterpret_cast<cuda::Address>(data_); }

  const cuda::Device& device_;
  std::unique_ptr<cuda::OwnedStream> own_;
  std::unique_ptr<cuda::GpuMemory> memory_;
};

}  // namespace

bool buffersAreOnHost() { return driver() == nullptr; }

Result<std::unique_ptr<ScratchMemory>> ScratchMemory::allocate(int device, size_t least, size_t most) {
  return buffersAreOnHost() ? HostScratchMemory::allocate(most) : CudaScratchMemory::allocate(device, least, most);
}

Result<ScopedDevice> ScopedDevice::enter(int device) {
  if (buffersAreOnHost()) return ScopedDevice(nullptr);
  return ScopedDevice(std::make_unique<cuda::ScopedContext>(*BPS_TRY(cuda::Device::open(*driver(), device))));
}

bool isCapturing(cudaStream_t stream) {
  int status = cuda::kNotCapturing;
  return driver() != nullptr && driver()->streamIsCapturing(stream, &status) == cuda::kSuccess &&
         status != cuda::kNotCapturing;
}

}  // namespace bps::interpose
