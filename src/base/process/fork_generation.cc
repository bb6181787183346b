#include "src/base/process/fork_generation.h"

#include <pthread.h>

#include <atomic>

namespace bps {

unsigned forkGeneration() {
  static std::atomic<unsigned> forks{0};
  [[maybe_unused]] static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++forks; });
  return forks.load(std::memory_order_relaxed);
}

}  // namespace bps
