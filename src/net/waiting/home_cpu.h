// HomeCpu: where a thread that polls belongs when more of them poll on a host than it has CPUs: all spread evenly. They
// let each other run at every look, so all have always just run, and the kernel leaves four of them on one CPU for
// seconds, the other one idle, and each then waits for three others at every step. So each goes to the CPU that is its
// by number, and looks whether it is still there. Where it is not, again and again, because somebody else works there,
// it looks ever more rarely. Which CPUs it may use does not change.
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
  static constexpr long kLeast = 64, kMost = 1 << 15;  // yields from one look to the next

  // `number`: of the thread among those of the host.
  explicit HomeCpu(size_t number, Place place = {}) : place_(std::move(place)), number_(number) {}

  // To be called after each poll that found nothing: lets others run.
  void yield() {
    place_.yield();
    if (--untilNext_ > 0) return;
    span_ = place_.moveTo(number_) ? std::min(2 * span_, kMost) : kLeast;
    untilNext_ = span_;
  }

 private:
  Place place_;
  const size_t number_;
  long span_ = kLeast, untilNext_ = 1;
};

}  // namespace bps::net
