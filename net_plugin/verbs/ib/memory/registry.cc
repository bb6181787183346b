#include "net_plugin/verbs/ib/memory/registry.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "net_plugin/abi.h"
#include "net_plugin/verbs/memlock.h"
#include "src/base/format.h"
#include "src/base/memory.h"

namespace bps::plugin::verbs {
namespace {

// The most registrations that find() examines. If none of them contains the buffer, the buffer gets
// its own registration.
constexpr int kMaxLookups = 8;

// Returns the counter of the registered bytes of all devices, because RLIMIT_MEMLOCK limits their
// sum. Relaxed memory ordering is sufficient, because the counter publishes no other data.
std::atomic<uint64_t>& pinned() {
  static std::atomic<uint64_t> bytes{0};
  return bytes;
}

// Returns the number of bytes of a registration that count against RLIMIT_MEMLOCK.
uint64_t pagesOf(const Registration& of) {
  return of.onGpu ? 0 : roundUp(of.end, kPageBytes) - of.begin / kPageBytes * kPageBytes;
}

}  // namespace

Registration* Registry::find(const Registration& wanted) {
  auto at = registrations_.upper_bound(wanted.begin);
  for (int looks = 0; looks < kMaxLookups && at != registrations_.begin(); ++looks) {
    Registration& each = *(--at)->second;
    const bool may = (each.access & wanted.access) == wanted.access;
    if (each.end >= wanted.end && may && each.onGpu == wanted.onGpu) return &each;
  }
  return nullptr;
}

Result<ibv_mr*> Registry::registerOnHost(const Registration& wanted) {
  const uint64_t bytes = wanted.end - wanted.begin;
  BPS_TRY(checkMemlock(memlockLimit(), pinned().load(std::memory_order_relaxed), pagesOf(wanted))
              .within(fmt::format("registering {} bytes with {}", bytes, device_)));
  ibv_mr* region = library_.regMr(domain_, reinterpret_cast<void*>(wanted.begin), bytes, wanted.access);
  if (region != nullptr) return region;
  return systemFailure(fmt::format("registering {} bytes with {} (RLIMIT_MEMLOCK {}, {} registered)", bytes, device_,
                                   memlockLimit(), pinned().load(std::memory_order_relaxed)),
                       errno);
}

Result<ibv_mr*> Registry::registerOnGpu(const MemoryRegion& memory, const Registration& wanted) {
  const bool byDmaBuf = memory.dmaBuf >= 0;
  const int bit = byDmaBuf ? abi::kPtrDmaBuf : abi::kPtrCuda;
  if ((ptrSupport_ & bit) == 0)
    return failure(Code::kInvalidUsage, "{} does not support GPU memory {} (its ptrSupport is {}): {}", device_,
                   byDmaBuf ? "by dma-buf" : "by its address", ptrSupport_,
                   byDmaBuf ? "its kernel driver or rdma-core lacks support" : "load nvidia_peermem");
  const uint64_t bytes = wanted.end - wanted.begin;
  ibv_mr* region = byDmaBuf
                       ? library_.regDmaBufMr(domain_, memory.offset, bytes, wanted.begin, memory.dmaBuf, wanted.access)
                       : library_.regMr(domain_, memory.data, bytes, wanted.access);
  if (region != nullptr) return region;
  const std::string way =
      byDmaBuf ? fmt::format("dma-buf {}, offset {}", memory.dmaBuf, memory.offset) : std::string("by nvidia_peermem");
  return systemFailure(
      fmt::format("registering {} bytes of GPU memory at {:#x} with {} ({})", bytes, wanted.begin, device_, way),
      errno);
}

Result<Registration*> Registry::add(const MemoryRegion& memory, int access) {
  const auto begin = reinterpret_cast<uintptr_t>(memory.data);
  Registration wanted{nullptr, begin, begin + std::max<size_t>(memory.bytes, 1), access, memory.onGpu, 1};
  MutexLock lock(mutex_);
  if (Registration* known = find(wanted)) {
    ++known->users;
    return known;
  }
  wanted.region = BPS_TRY(wanted.onGpu ? registerOnGpu(memory, wanted) : registerOnHost(wanted));
  pinned().fetch_add(pagesOf(wanted), std::memory_order_relaxed);
  return registrations_.emplace(begin, std::make_unique<Registration>(wanted))->second.get();
}

void Registry::release(Registration* registration) {
  if (registration == nullptr) return;
  MutexLock lock(mutex_);
  if (--registration->users > 0) return;
  const auto [first, last] = registrations_.equal_range(registration->begin);
  const auto entry = std::find_if(first, last, [&](const auto& each) { return each.second.get() == registration; });
  if (entry == last) return;
  library_.deregMr(registration->region);
  pinned().fetch_sub(pagesOf(*registration), std::memory_order_relaxed);
  registrations_.erase(entry);
}

}  // namespace bps::plugin::verbs
