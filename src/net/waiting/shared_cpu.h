// SharedCpu: the CPU of a thread that polls, and how to leave it when another thread polls there too.
//
// Two threads that poll and let each other run are both always runnable and have always just run: kernels leave them on
// one CPU for seconds, even where another is idle, and each waits for the other at every step, which takes three times
// as long. So a thread that finds out that it takes turns moves to another CPU once. Where it takes turns there as well
// it goes back, and tries ever more rarely. Which CPUs it may use does not change. Where more threads poll than there
// are CPUs, all take turns in any case (home_cpu.h).
//
// Belongs to one thread.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace bps::net {

// Of the calling thread.
class ThreadPlace {
 public:
  static void yield();
  // How many CPUs it may use.
  static size_t cpus();
  // How often another thread has taken the CPU while this one could have run.
  static long switches();
  // To the host's CPU of this number, counted round. False: it is there already, or has been bound to some of them.
  static bool moveTo(size_t number);
  // To any other CPU that it may use. False: there is none.
  bool leave();
  void goBack() const;

 private:
  int left_ = -1;
};

template <class Place = ThreadPlace>
class SharedCpu {
 public:
  static constexpr long kProbe = 16;                   // yields that are looked at
  static constexpr long kLeast = 64, kMost = 1 << 15;  // yields from one look to the next: so many, up to twice as many

  static constexpr unsigned kPollsAlone = 8;  // per yield, which takes as long as a poll

  explicit SharedCpu(uint32_t seed, Place place = {}) : place_(place), random_(seed) { rest(kLeast); }

  // To be called after each poll that found nothing: lets others run. Where nobody did at the last look, not every
  // time.
  void yield() {
    if (!shared_ && ++polls_ % kPollsAlone != 0) return;
    place_.yield();
    if (--untilNext_ > 0) return;
    if (probes_) endProbe(place_.switches() - before_ > kProbe * 3 / 4);
    else probe();
  }

 private:
  void probe() {
    probes_ = true;
    before_ = place_.switches();
    untilNext_ = kProbe;
  }
  void endProbe(bool shared) {
    shared_ = shared;
    const bool moved = std::exchange(moved_, false);
    if (shared && moved) place_.goBack();
    else if (shared && place_.leave()) moved_ = true;
    if (moved_) probe();
    else rest(shared ? std::min(2 * span_, kMost) : kLeast);
  }
  // By chance, so that of two threads one moves and the other sees that it has.
  void rest(long span) {
    probes_ = false;
    span_ = span;
    random_ = random_ * 1664525U + 1013904223U;
    untilNext_ = span + static_cast<long>(random_ >> 16U) % span;
  }

  Place place_;
  uint32_t random_;
  long untilNext_ = 0, span_ = 0, before_ = 0;
  bool probes_ = false, moved_ = false, shared_ = true;
  unsigned polls_ = 0;
};

}  // namespace bps::net
