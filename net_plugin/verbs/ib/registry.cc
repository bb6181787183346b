#include "net_plugin/verbs/ib/registry.h"

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "net_plugin/verbs/memlock.h"
#include "src/base/format.h"
#include "src/base/memory.h"

namespace bps::plugin::verbs {
namespace {

// A buffer that lies across the end of a registration needs one of its own; how many neighbours are looked at.
constexpr int kMostLooks = 8;

// Of all devices, as the limit holds for all. Memory ordering: a count and no more; relaxed is enough.
std::atomic<uint64_t>& pinned() {
  static std::atomic<uint64_t> bytes{0};
  return bytes;
}

uint64_t pagesOf(uintptr_t begin, uintptr_t end) { return roundUp(end, kPageBytes) - begin / kPageBytes * kPageBytes; }

}  // namespace

Registration* Registry::find(uintptr_t begin, uintptr_t end, int access) {
  auto at = registrations_.upper_bound(begin);
  for (int looks = 0; looks < kMostLooks && at != registrations_.begin(); ++looks) {
    Registration& each = *(--at)->second;
    if (each.end >= end && (each.access & access) == access) return &each;
  }
  return nullptr;
}

Result<Registration*> Registry::add(void* data, size_t bytes, int access) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const uintptr_t end = begin + std::max<size_t>(bytes, 1);
  MutexLock lock(mutex_);
  if (Registration* known = find(begin, end, access)) {
    ++known->users;
    return known;
  }
  const uint64_t pages = pagesOf(begin, end);
  BPS_TRY(checkMemlock(memlockLimit(), pinned().load(std::memory_order_relaxed), pages)
              .within(fmt::format("registering {} bytes with {}", bytes, device_)));
  ibv_mr* region = library_.regMr(domain_, data, end - begin, access);
  if (region == nullptr)
    return systemFailure(fmt::format("registering {} bytes with {} (RLIMIT_MEMLOCK {}, {} registered)", bytes, device_,
                                     memlockLimit(), pinned().load(std::memory_order_relaxed)),
                         errno);
  pinned().fetch_add(pages, std::memory_order_relaxed);
  auto registration = std::make_unique<Registration>(Registration{region, begin, end, access, 1});
  return registrations_.emplace(begin, std::move(registration))->second.get();
}

void Registry::release(Registration* registration) {
  if (registration == nullptr) return;
  MutexLock lock(mutex_);
  if (--registration->users > 0) return;
  const auto [first, last] = registrations_.equal_range(registration->begin);
  const auto entry = std::find_if(first, last, [&](const auto& each) { return each.second.get() == registration; });
  if (entry == last) return;
  library_.deregMr(registration->region);
  pinned().fetch_sub(pagesOf(registration->begin, registration->end), std::memory_order_relaxed);
  registrations_.erase(entry);
}

}  // namespace bps::plugin::verbs
