// FailedGates: the gates of calls that failed. They open at once; or, for parts of calls, only when somebody says so:
// behind them in the stream stands what would give a wrong part to others.
//
// Threads: any.
#pragma once
#include <memory>
#include <utility>
#include <vector>

#include "src/base/mutex.h"
#include "src/device/stream_gate.h"

namespace bps {

class FailedGates {
 public:
  void add(std::shared_ptr<cuda::StreamGate> gate) {
    {
      MutexLock lock(mutex_);
      if (shut_) return waiting_.push_back(std::move(gate));
    }
    gate->open();
  }
  // From now on.
  void keepShut() {
    MutexLock lock(mutex_);
    shut_ = true;
  }
  void open() {
    std::vector<std::shared_ptr<cuda::StreamGate>> waiting;
    {
      MutexLock lock(mutex_);
      shut_ = false;
      waiting.swap(waiting_);
    }
    for (const auto& gate : waiting) gate->open();
  }

 private:
  Mutex mutex_;
  bool shut_ BPS_GUARDED_BY(mutex_) = false;
  std::vector<std::shared_ptr<cuda::StreamGate>> waiting_ BPS_GUARDED_BY(mutex_);
};

}  // namespace bps
