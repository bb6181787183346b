#include "src/net/waiting/contended_cpu.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

namespace bps::net {
namespace {

cpu_set_t singleCpuSet(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  return set;
}

// A thread that may not run where it is moves at once.
bool migrateTo(const cpu_set_t& target, const cpu_set_t& allowed) {
  if (::sched_setaffinity(0, sizeof target, &target) != 0) return false;
  cpu_set_t now;
  if (::sched_getaffinity(0, sizeof now, &now) == 0 && CPU_EQUAL(&now, &target))
    ::sched_setaffinity(0, sizeof allowed, &allowed);
  return true;
}

}  // namespace

void ThreadAffinity::yield() { ::sched_yield(); }

size_t ThreadAffinity::cpus() {
  cpu_set_t allowed;
  return ::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? static_cast<size_t>(CPU_COUNT(&allowed)) : 1;
}

long ThreadAffinity::involuntarySwitches() {
  rusage use{};
  ::getrusage(RUSAGE_THREAD, &use);
  return use.ru_nivcsw;
}

// Which CPUs it may use has not changed in the end, unless somebody else has changed it meanwhile: then that holds.
bool ThreadAffinity::moveTo(size_t number) {
  cpu_set_t allowed;
  const int here = ::sched_getcpu();
  if (here < 0 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return false;
  const int count = CPU_COUNT(&allowed);
  if (count < 2 || count < ::sysconf(_SC_NPROCESSORS_ONLN)) return false;
  number %= static_cast<size_t>(count);
  int cpu = 0;
  for (; !CPU_ISSET(cpu, &allowed) || number > 0; ++cpu)
    if (CPU_ISSET(cpu, &allowed)) --number;
  return cpu != here && migrateTo(singleCpuSet(cpu), allowed);
}

bool ThreadAffinity::moveAway() {
  cpu_set_t allowed;
  previousCpu_ = ::sched_getcpu();
  if (previousCpu_ < 0 || ::sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2)
    return false;
  cpu_set_t others = allowed;
  CPU_CLR(previousCpu_, &others);
  return migrateTo(others, allowed);
}

void ThreadAffinity::moveBack() const {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) == 0) migrateTo(singleCpuSet(previousCpu_), allowed);
}

}  // namespace bps::net
