// ContendedCpu: the CPU of a thread that polls, and how to leave it when another thread polls there too.
//
// Two threads that poll and let each other run are both always runnable and have always just run: kernels leave them on
// one CPU for seconds, even where another is idle, and each waits for the other at every step, which takes three times
// as long. So a thread that finds out that it takes turns moves to another CPU once. Where it takes turns there as well
// it goes back, and tries ever more rarely. Which CPUs it may use does not change. Where more threads poll than there
// are CPUs, all take turns in any case (assigned_cpu.h).
//
// Belongs to one thread.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace bps::net {

// Of the calling thread.
class ThreadAffinity {
 public:
  static void yield();
  // How many CPUs it may use.
  static size_t cpus();
  // How often another thread has taken the CPU while this one could have run.
  static long involuntarySwitches();
  // To the host's CPU of this number, counted round. False: it is there already, or has been bound to some of them.
  static bool moveTo(size_t number);
  // To any other CPU that it may use. False: there is none.
  bool moveAway();
  void moveBack() const;

 private:
  int previousCpu_ = -1;
};

template <class Affinity = ThreadAffinity>
class ContendedCpu {
 public:
  static constexpr long kProbe = 16;                // yields that are looked at
  static constexpr long kMin = 64, kMax = 1 << 15;  // yields from one look to the next: so many, up to twice as many

  static constexpr unsigned kPollsPerYield = 8;  // per yield, which takes as long as a poll

  explicit ContendedCpu(uint32_t seed, Affinity affinity = {}) : affinity_(affinity), random_(seed) {
    scheduleNextCheck(kMin);
  }

  // To be called after each poll that found nothing: lets others run. Where nobody did at the last look, not every
  // time.
  void yield() {
    if (!shared_ && ++polls_ % kPollsPerYield != 0) return;
    affinity_.yield();
    if (--yieldsUntilCheck_ > 0) return;
    if (isProbing_) endProbe(affinity_.involuntarySwitches() - before_ > kProbe * 3 / 4);
    else probe();
  }

 private:
  void probe() {
    isProbing_ = true;
    before_ = affinity_.involuntarySwitches();
    yieldsUntilCheck_ = kProbe;
  }
  void endProbe(bool shared) {
    shared_ = shared;
    const bool moved = std::exchange(moved_, false);
    if (shared && moved) affinity_.moveBack();
    else if (shared && affinity_.moveAway()) moved_ = true;
    if (moved_) probe();
    else scheduleNextCheck(shared ? std::min(2 * yieldsBetweenChecks_, kMax) : kMin);
  }
  // By chance, so that of two threads one moves and the other sees that it has.
  void scheduleNextCheck(long span) {
    isProbing_ = false;
    yieldsBetweenChecks_ = span;
    random_ = random_ * 1664525U + 1013904223U;
    yieldsUntilCheck_ = span + static_cast<long>(random_ >> 16U) % span;
  }

  Affinity affinity_;
  uint32_t random_;
  long yieldsUntilCheck_ = 0, yieldsBetweenChecks_ = 0, before_ = 0;
  bool isProbing_ = false, moved_ = false, shared_ = true;
  unsigned polls_ = 0;
};

}  // namespace bps::net
