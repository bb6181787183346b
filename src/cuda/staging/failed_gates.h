// FailedGates: the stream gates of failed calls. Normally the gate of a failed call opens at once.
// If a communicator carries parts of another communicator's calls, its gates stay closed until
// open(). The work behind such a gate would otherwise pass a wrong part to other ranks.
//
// Any thread may call these functions.
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
  // After keepClosed(), gates that are added stay closed until open().
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
