#include "net_plugin/hangup_check.h"

#include <ctime>

namespace bps::plugin {
namespace {

constexpr unsigned kSleepsPerCheck = 16;

int64_t coarseNowMs() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

}  // namespace

bool HangupCheck::isDue() {
  const int64_t now = coarseNowMs();
  if (now - lastCheckMs_ < intervalMs_) return false;
  lastCheckMs_ = now;
  return true;
}

bool HangupCheck::isDueBeforeSleep() { return ++sleeps_ % kSleepsPerCheck == 0; }

}  // namespace bps::plugin
