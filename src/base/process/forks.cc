#include "src/base/process/forks.h"

#include <pthread.h>

#include <atomic>

namespace bps {

unsigned processForks() {
  static std::atomic<unsigned> forks{0};
  [[maybe_unused]] static const int registered = ::pthread_atfork(nullptr, nullptr, [] { ++forks; });
  return forks.load(std::memory_order_relaxed);
}

}  // namespace bps
