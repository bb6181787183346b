// HomeCpu: where a thread that polls belongs when more of them poll on a host than it has CPUs, and nobody has bound
// them. They let each other run at every look, so all have always just run, and the kernel leaves four of them on one
// CPU for seconds, the other one idle, and each then waits for three others at every step. So each goes to the CPU that
// is its by number, and looks whether it is still there. Where it is not, again and again, because somebody else works
// there, it looks ever more rarely.
//
// Belongs to one thread.
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>

#include "src/net/waiting/shared_cpu.h"

namespace bps::net {

template <class Place = ThreadPlace>
class HomeCpu {
 public:
  static constexpr long kLeast = 64, kMost = 1 << 13;  // yields from one look to the next

  explicit HomeCpu(Place place = {}) : place_(std::move(place)) {}

  // To be called after each poll that found nothing: lets others run. `number`: of the rank among those of its host.
  void yield(size_t number) {
    place_.yield();
    if (--untilNext_ > 0) return;
    span_ = place_.moveTo(number) ? std::min(2 * span_, kMost) : std::max(span_ / 2, kLeast);
    untilNext_ = span_;
  }

 private:
  Place place_;
  long span_ = kLeast, untilNext_ = 1;
};

}  // namespace bps::net
