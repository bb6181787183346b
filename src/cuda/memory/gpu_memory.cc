#include "src/cuda/memory/gpu_memory.h"

#include <optional>

#include "src/base/format.h"
#include "src/base/memory.h"
#include "src/cuda/memory/free_list.h"

namespace bps::cuda {
namespace {

// The page size with which a GPU's driver exports memory. It is a multiple of the host's page size.
constexpr size_t kGpuPageBytes = 64U << 10;
constexpr int kDmaBufFd = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

FreeList<GpuMemory::Region>& freeList() {
  static auto* instance = new FreeList<GpuMemory::Region>;
  return *instance;
}

}  // namespace

Result<std::unique_ptr<GpuMemory>> GpuMemory::create(const Device& device, size_t bytes) {
  bytes = roundUp(bytes, kGpuPageBytes);
  if (const std::optional<Region> spare = freeList().take(device.ordinal(), bytes))
    return std::unique_ptr<GpuMemory>(new GpuMemory(device, *spare, bytes));
  const ScopedContext scope(device);
  const Api& api = device.api();
  Address allocation = 0;
  BPS_TRY(check(api, api.memAlloc(&allocation, bytes + kGpuPageBytes), "cuMemAlloc")
              .within(fmt::format("{} bytes of memory on CUDA device {}", bytes, device.ordinal())));
  return std::unique_ptr<GpuMemory>(new GpuMemory(device, {allocation, bytes}, bytes));
}

GpuMemory::GpuMemory(const Device& device, const Region& region, size_t bytes)
    : device_(device),
      region_(region),
      data_(reinterpret_cast<uint8_t*>(roundUp(region.allocation, kGpuPageBytes))),
      bytes_(bytes) {}

GpuMemory::~GpuMemory() { freeList().put(device_.ordinal(), region_); }

UniqueFd GpuMemory::dmaBuf() const {
  const Api& api = device_.api();
  if (api.memGetHandleForAddressRange == nullptr) return UniqueFd();
  const ScopedContext scope(device_);
  int fd = -1;
  const auto begin = reinterpret_cast<Address>(data_);
  const int outcome = api.memGetHandleForAddressRange(&fd, begin, bytes_, kDmaBufFd, 0);
  return UniqueFd(outcome == kSuccess ? fd : -1);
}

}  // namespace bps::cuda
