#include "src/device/memory/gpu_memory.h"

#include <map>
#include <optional>
#include <vector>

#include "src/base/format.h"
#include "src/base/memory.h"
#include "src/base/mutex.h"

namespace bps::cuda {
namespace {

// The size of a GPU's pages, as its driver hands them to others; a multiple of the host's.
constexpr size_t kGpuPageBytes = 64U << 10;
constexpr int kDmaBufFd = 1;  // CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD

struct Spares {
  Mutex mutex;
  std::map<int, std::vector<GpuMemory::Region>> byDevice BPS_GUARDED_BY(mutex);
};

Spares& spares() {
  static auto* instance = new Spares;
  return *instance;
}

// The smallest that is large enough.
std::optional<GpuMemory::Region> takeSpare(const Device& device, size_t bytes) {
  MutexLock lock(spares().mutex);
  std::vector<GpuMemory::Region>& regions = spares().byDevice[device.ordinal()];
  auto best = regions.end();
  for (auto region = regions.begin(); region != regions.end(); ++region)
    if (region->bytes >= bytes && (best == regions.end() || region->bytes < best->bytes)) best = region;
  if (best == regions.end()) return std::nullopt;
  const GpuMemory::Region taken = *best;
  regions.erase(best);
  return taken;
}

}  // namespace

Result<std::unique_ptr<GpuMemory>> GpuMemory::create(const Device& device, size_t bytes) {
  bytes = roundUp(bytes, kGpuPageBytes);
  if (const std::optional<Region> spare = takeSpare(device, bytes))
    return std::unique_ptr<GpuMemory>(new GpuMemory(device, *spare, bytes));
  const Scope scope(device);
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

GpuMemory::~GpuMemory() {
  MutexLock lock(spares().mutex);
  spares().byDevice[device_.ordinal()].push_back(region_);
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
