#include "src/device/memory/gpu_memory.h"

#include "src/base/format.h"
#include "src/base/memory.h"

namespace bps::cuda {
namespace {

// The size of a GPU's pages, as its driver hands them to others; a multiple of the host's.
constexpr size_t kGpuPageBytes = 64U << 10;
constexpr int kDmaBufFd = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

}  // namespace

Result<std::unique_ptr<GpuMemory>> GpuMemory::create(const Device& device, size_t bytes) {
  const Scope scope(device);
  const Api& api = device.api();
  bytes = roundUp(bytes, kGpuPageBytes);
  Address allocation = 0;
  BPS_TRY(check(api, api.memAlloc(&allocation, bytes + kGpuPageBytes), "cuMemAlloc")
              .within(fmt::format("{} bytes of memory on CUDA device {}", bytes, device.ordinal())));
  return std::unique_ptr<GpuMemory>(new GpuMemory(device, allocation, bytes));
}

GpuMemory::GpuMemory(const Device& device, Address allocation, size_t bytes)
    : device_(device),
      allocation_(allocation),
      data_(reinterpret_cast<uint8_t*>(roundUp(allocation, kGpuPageBytes))),
      bytes_(bytes) {}

GpuMemory::~GpuMemory() {
  const Scope scope(device_);
  device_.api().memFree(allocation_);
}

UniqueFd GpuMemory::dmaBuf() const {
  const Api& api = device_.api();
  if (api.memGetHandleForAddressRange == nullptr) return UniqueFd();
  const Scope scope(device_);
  int fd = -1;
  const auto begin = reinterpret_cast<Address>(data_);
  const int outcome = api.memGetHandleForAddressRange(&fd, begin, bytes_, kDmaBufFd, 0);
  return UniqueFd(outcome == kSuccess ? fd : -1);
}

}  // namespace bps::cuda
