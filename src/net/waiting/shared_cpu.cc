#include "src/net/waiting/shared_cpu.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace bps::net {
namespace {

cpu_set_t only(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return set;
}

// A thread that may not run where it is moves at once.
bool visit(const cpu_set_t& there, const cpu_set_t& allowed) {
  if (::sched_setaffinity(0, sizeof there, &there) != 0) return false;
  cpu_set_t now;
  if (::sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &there))
    ::sched_setaffinity(0, sizeof allowed, &allowed);
  return true;
}

}  // namespace

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

// Which CPUs it may use has not changed in the end, unless somebody else has changed it meanwhile: then that holds.
bool ThreadPlace::moveTo(size_t number) {
  cpu_set_t allowed;
  const int here = ::sched_getcpu();
  if (here < 0 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  const int count = CPU_COUNT(&allowed);
  if (count < 2 || count < ::sysconf(_SC_NPROCESSORS_ONLN)) return false;
  number %= static_cast<size_t>(count);
  int cpu = 0;
  for (; !CPU_ISSET(cpu, &allowed) || number > 0; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) --number;
  return cpu != here && visit(only(cpu), allowed);
}

bool ThreadPlace::leave() {
  cpu_set_t allowed;
  left_ = ::sched_getcpu();
  if (left_ < 0 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return false;
  cpu_set_t others = allowed;
  CPU_CLR(left_, &others);
  return visit(others, allowed);
}

void ThreadPlace::goBack() const {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) visit(only(left_), allowed);
}

}  // namespace bps::net
