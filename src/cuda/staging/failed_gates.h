// FailedGates: the gates of calls that failed. They open at once; or, for parts of calls, only when somebody says so:
// behind them in the stream stands what would give a wrong part to others.
//
// Threads: any.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "src/base/mutex.h"
#include "src/cuda/stream_gate.h"

namespace bps {

class FailedGates {
 public:
  void add(std::shared_ptr<cuda::StreamGate> gate) {
    {
      MutexLock lock(mutex_);
      if (keepClosed_) return closed_.push_back(std::move(gate));
    }
    gate->open();
  }
  // From now on.
  void keepClosed() {
    MutexLock lock(mutex_);
    keepClosed_ = true;
  }
  void open() {
    std::vector<std::shared_ptr<cuda::StreamGate>> closed;
    {
      MutexLock lock(mutex_);
      keepClosed_ = false;
      closed.swap(closed_);
    }
    for (const auto& gate : closed) gate->open();
  }

 private:
  Mutex mutex_;
  bool keepClosed_ BPS_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<cuda::StreamGate>> closed_ BPS_GUARDED_BY(mutex_);
};

}  // namespace bps
