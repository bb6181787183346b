#include "src/comm/watchdog/dump_signal.h"

#include <signal.h>

#include <atomic>
#include <mutex>

#include "src/base/log.h"

namespace bps {
namespace {

// A signal handler may use only lock-free atomics. Relaxed, because the counter orders no other data.
std::atomic<uint64_t> received{0};
static_assert(std::atomic<uint64_t>::is_always_lock_free);

void countSignal(int) { received.fetch_add(1, std::memory_order_relaxed); }

int numberOf(const std::string& signal) {
  if (signal == "USR1") return SIGUSR1;
  return signal == "USR2" ? SIGUSR2 : 0;
}

void install(const std::string& signal) {
  const int number = numberOf(signal);
  if (number == 0) return;
  struct sigaction present {};
  if (::sigaction(number, nullptr, &present) != 0) return;
  if ((present.sa_flags & SA_SIGINFO) != 0 || present.sa_handler != SIG_DFL) {
    logInfo(Subsystem::kInit, "the application handles SIG{}, so the signal does not log the state of calls", signal);
    return;
  }
  struct sigaction ours {};
  ours.sa_handler = countSignal;
  ours.sa_flags = SA_RESTART;
  sigemptyset(&ours.sa_mask);
  ::sigaction(number, &ours, nullptr);
}

}  // namespace

void handleDumpSignal(const std::string& signal) {
  static std::once_flag once;
  std::call_once(once, [&] { install(signal); });
}

uint64_t dumpSignals() { return received.load(std::memory_order_relaxed); }

}  // namespace bps
