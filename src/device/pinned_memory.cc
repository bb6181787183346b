#include "src/device/pinned_memory.h"

#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "src/base/format.h"
#include "src/base/memory.h"
#include "src/device/device.h"

namespace bps::cuda {
namespace {

// The kernel takes the pages from this node while it has some. That it may not, in a container say, costs only speed.
void preferNode(uint8_t* memory, size_t bytes, int node) {
  constexpr int kPreferred = 1;  // MPOL_PREFERRED
  constexpr size_t kBits = 8 * sizeof(unsigned long);
  std::array<unsigned long, 16> nodes{};
  if (node < 0 || static_cast<size_t>(node) >= nodes.size() * kBits) return;
  nodes[static_cast<size_t>(node) / kBits] |= 1UL << (static_cast<size_t>(node) % kBits);
  ::syscall(SYS_mbind, memory, bytes, kPreferred, nodes.data(), nodes.size() * kBits, 0U);
}

}  // namespace

Result<PinnedMemory> PinnedMemory::create(const Device& device, size_t bytes) {
  bytes = roundUp(bytes, kPageBytes);
  void* mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) return systemFailure(fmt::format("{} bytes of pinned memory", bytes), errno);
  PinnedMemory memory(device, static_cast<uint8_t*>(mapped), bytes);
  preferNode(memory.data_, bytes, device.numaNode());
  std::memset(mapped, 0, bytes);
  const Scope scope(device);
  const Api& api = device.api();
  BPS_TRY(check(api, api.memHostRegister(mapped, bytes, kPortable | kDeviceMap), "cuMemHostRegister")
              .within(fmt::format("{} bytes of pinned memory", bytes)));
  memory.registered_ = true;
  BPS_TRY(check(api, api.memHostGetDevicePointer(&memory.address_, mapped, 0), "cuMemHostGetDevicePointer"));
  return memory;
}

PinnedMemory::PinnedMemory(PinnedMemory&& other) noexcept
    : device_(other.device_),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_),
      registered_(other.registered_),
      address_(other.address_) {}

PinnedMemory::~PinnedMemory() {
  if (data_ == nullptr) return;
  if (registered_) {
    const Scope scope(*device_);
    device_->api().memHostUnregister(data_);
  }
  ::munmap(data_, bytes_);
}

}  // namespace bps::cuda
