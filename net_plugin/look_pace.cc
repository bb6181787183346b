#include "net_plugin/look_pace.h"

#include <ctime>

namespace bps::plugin {
namespace {

constexpr unsigned kSleepsPerLook = 16;

int64_t coarseNowMs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

}  // namespace

bool LookPace::isDue() {
  const int64_t now = coarseNowMs();
  if (now - lookedAtMs_ < everyMs_) return false;
  lookedAtMs_ = now;
  return true;
}

bool LookPace::isDueBeforeSleep() { return ++sleeps_ % kSleepsPerLook == 0; }

}  // namespace bps::plugin
