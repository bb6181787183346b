// CallWatchdog: tells the user for whom the calls of one communicator wait. It warns if no call has made progress for
// 2, 4, 8, ... seconds, and it logs the state of all calls after the user's signal (dump_signal.h).
//
// A call that makes progress costs one store. Only the holder of the progress lock (progress_engine.h) uses a
// CallWatchdog.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "src/base/wait_backoff.h"
#include "src/comm/call/collective.h"
#include "src/comm/lanes/data_plane.h"
#include "src/comm/local/local_reducer.h"
#include "src/comm/watchdog/dump_signal.h"

namespace bps {

// The calls of a communicator, and the objects that know for which peers these calls wait.
struct CallsInFlight {
  uint64_t job = 0;
  size_t rank = 0;
  const std::deque<std::unique_ptr<Collective>>& active;
  size_t queued = 0;     // calls whose streams have not reached them, or that wait for such a call
  bool copying = false;  // a copy to or from a device is in flight
  const DataPlane* plane = nullptr;
  const LocalReducer* local = nullptr;

  std::vector<PeerWait> peerWaits() const;
};

class CallWatchdog {
 public:
  void noteProgress() { backoff_.restart(); }
  // Call check() regularly while no call makes progress. Logs a warning if one is due.
  void check(const CallsInFlight& calls);
  // True once after each signal of the user.
  bool takeDumpSignal() {
    const uint64_t signals = dumpSignals();
    return std::exchange(dumpsSeen_, signals) != signals;
  }
  // Logs the state of all calls.
  void dump(const CallsInFlight& calls) const;

 private:
  WaitBackoff backoff_;
  uint64_t dumpsSeen_ = dumpSignals();
};

}  // namespace bps
