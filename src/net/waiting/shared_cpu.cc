#include "src/net/waiting/shared_cpu.h"

#include <sched.h>
#include <sys/resource.h>

namespace bps::net {

void ThreadPlace::yield() { ::sched_yield(); }

size_t ThreadPlace::cpus() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<size_t>(CPU_COUNT(&allowed)) : 1;
}

long ThreadPlace::switches() {
  rusage use{};
  ::getrusage(RUSAGE_THREAD, &use);
  return use.ru_nivcsw;
}

// A thread that may not run where it is moves at once.
bool ThreadPlace::moveTo(size_t number) {
  cpu_set_t allowed, only;
  const int here = ::sched_getcpu();
  if (here < 0 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  number %= static_cast<size_t>(CPU_COUNT(&allowed));
  int cpu = 0;
  for (; !CPU_ISSET(cpu, &allowed) || number > 0; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) --number;
  if (cpu == here) return false;
  CPU_ZERO(&only);
  CPU_SET(cpu, &only);
  const bool moved = ::sched_setaffinity(0, sizeof only, &only) == 0;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
  return moved;
}

bool ThreadPlace::leave() {
  cpu_set_t allowed;
  left_ = ::sched_getcpu();
  if (left_ < 0 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return false;
  cpu_set_t others = allowed;
  CPU_CLR(left_, &others);
  const bool moved = ::sched_setaffinity(0, sizeof others, &others) == 0;
  ::sched_setaffinity(0, sizeof allowed, &allowed);
  return moved;
}

void ThreadPlace::goBack() const {
  cpu_set_t allowed, only;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_ZERO(&only);
  CPU_SET(left_, &only);
  ::sched_setaffinity(0, sizeof only, &only);
  ::sched_setaffinity(0, sizeof allowed, &allowed);
}

}  // namespace bps::net
