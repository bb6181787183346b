#include "net_plugin/verbs/memlock.h"

#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <limits>

#include "src/base/format.h"

namespace bps::plugin::verbs {
namespace {

bool hasIpcLock() {
  __user_cap_header_struct header{};
  header.version = _LINUX_CAPABILITY_VERSION_3;
  std::array<__user_cap_data_struct, 2> sets{};
  if (::syscall(SYS_capget, &header, sets.data()) != 0) return false;
  return (sets[0].effective & 1U << CAP_IPC_LOCK) != 0;
}

}  // namespace

uint64_t memlockLimit() {
  rlimit limit{};
  constexpr uint64_t kNone = std::numeric_limits<uint64_t>::max();
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || hasIpcLock()) return kNone;
  return limit.rlim_cur;
}

Status checkMemlock(uint64_t limitBytes, uint64_t registeredBytes, uint64_t moreBytes) {
  if (moreBytes <= limitBytes && registeredBytes <= limitBytes - moreBytes) return {};
  return failure(Code::kSystem,
                 "RLIMIT_MEMLOCK is {} bytes, but {} bytes are needed ({} registered, {} more): raise it (ulimit -l "
                 "unlimited, docker run --ulimit memlock=-1, LimitMEMLOCK=infinity)",
                 limitBytes, registeredBytes + moreBytes, registeredBytes, moreBytes);
}

}  // namespace bps::plugin::verbs
