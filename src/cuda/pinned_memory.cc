#include "src/cuda/pinned_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "src/base/format.h"
#include "src/base/memory.h"
#include "src/cuda/device.h"
#include "src/cuda/memory/free_list.h"

namespace bps::cuda {
namespace {

// The kernel takes pages from this NUMA node while the node has free pages. If the kernel refuses,
// for example in a container, copies are only slower.
void preferNumaNode(uint8_t* memory, size_t bytes, int node) {
  constexpr int kPreferred = 1;  // MPOL_PREFERRED
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, 16> nodes{};
  if (node < 0 || static_cast<size_t>(node) >= nodes.size() * kBits) return;
  nodes[static_cast<size_t>(node) / kBits] |= 1UL << (static_cast<size_t>(node) % kBits);
  ::syscall(SYS_mbind, memory, bytes, kPreferred, nodes.data(), nodes.size() * kBits, 0U);
}

FreeList<PinnedMemory::Region>& freeList() {
  static auto* instance = new FreeList<PinnedMemory::Region>;
  return *instance;
}

}  // namespace

Result<PinnedMemory> PinnedMemory::create(const Device& device, size_t bytes) {
  bytes = roundUp(bytes, kPageBytes);
  if (const std::optional<Region> spare = freeList().take(device.ordinal(), bytes)) {
    std::memset(spare->data, 0, bytes);
    return PinnedMemory(device, *spare, bytes);
  }
  return PinnedMemory(device, BPS_TRY(pin(device, bytes)), bytes);
}

Result<PinnedMemory::Region> PinnedMemory::pin(const Device& device, size_t bytes) {
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return systemFailure(fmt::format("{} bytes of pinned memory", bytes), errno);
  // After a fork() the parent's pages would be copied on the next write, and the device would keep the old ones.
  ::madvise(mapped, bytes, MADV_DONTFORK);
  Region region{static_cast<uint8_t*>(mapped), 0, bytes};
  preferNumaNode(region.data, bytes, device.numaNode());
  std::memset(mapped, 0, bytes);
  const ScopedContext scope(device);
  const Api& api = device.api();
  Status pinned = check(api, api.memHostRegister(mapped, bytes, kPortable | kDeviceMap), "cuMemHostRegister");
  if (!pinned.ok()) {
    ::munmap(mapped, bytes);
    return std::move(pinned).within(fmt::format("{} bytes of pinned memory", bytes));
  }
  Status seen = check(api, api.memHostGetDevicePointer(&region.address, mapped, 0), "cuMemHostGetDevicePointer");
  if (seen.ok()) return region;
  api.memHostUnregister(mapped);
  ::munmap(mapped, bytes);
  return seen;
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : device_(std::exchange(other.device_, nullptr)), region_(other.region_), bytes_(other.bytes_) {}

PinnedMemory::~PinnedMemory() {
  if (device_ != nullptr) freeList().put(device_->ordinal(), region_);
}

}  // namespace bps::cuda
