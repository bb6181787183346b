// AssignedCpu: where a thread that polls belongs when more of them poll on a host than it has CPUs, and nobody has
// bound them. They let each other run at every look, so all have always just run, and the kernel leaves four of them on
// one CPU for seconds, the other one idle, and each then waits for three others at every step. So each goes to the CPU
// that is its by number, and looks whether it is still there. Where it is not, again and again, because somebody else
// works there, it looks ever more rarely.
//
// Belongs to one thread.
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/net/waiting/contended_cpu.h"

namespace bps::net {

template <class Affinity = ThreadAffinity>
class AssignedCpu {
 public:
  static constexpr long kMin = 64, kMax = 1 << 13;  // yields from one look to the next

  explicit AssignedCpu(Affinity affinity = {}) : affinity_(std::move(affinity)) {}

  // To be called after each poll that found nothing: lets others run. `number`: of the rank among those of its host.
  void yield(size_t number) {
    affinity_.yield();
    if (--yieldsUntilCheck_ > 0) return;
    yieldsBetweenChecks_ =
        affinity_.moveTo(number) ? std::min(2 * yieldsBetweenChecks_, kMax) : std::max(yieldsBetweenChecks_ / 2, kMin);
    yieldsUntilCheck_ = yieldsBetweenChecks_;
  }

 private:
  Affinity affinity_;
  long yieldsBetweenChecks_ = kMin, yieldsUntilCheck_ = 1;
};

}  // namespace bps::net
