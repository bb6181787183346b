// ServerRecovery: lets the calls of a communicator go on after the loss of servers. It carries out, on
// this rank, the steps that comm/lanes/recovery.h describes. The ServerRecovery belongs to the
// CallScheduler, and only the holder of the progress lock uses it.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "src/comm/lanes/data_plane.h"
#include "src/comm/progress/session.h"
#include "src/net/waiter.h"
#include "src/plan/cutter.h"

namespace bps {

class ServerRecovery {
 public:
  explicit ServerRecovery(const Session& session) : session_(session), lost_(session.control.roster().servers.size()) {}

  // The state of the calls of this rank.
  struct Calls {
    uint64_t begun = 0;       // number of calls that this rank has begun since the start
    bool unfinished = false;  // a call has not ended
  };
  // Goes on without a server. Blocks for a few round trips between the ranks, while no call of this
  // rank moves: the other ranks do the same. `plane` is null if this rank does not use the network.
  Status recover(const ServerLost& loss, const Calls& calls, DataPlane* plane, net::Waiter& waiter);
  // Gives the cutter the shares for the call that begins next.
  void beforeCall(uint64_t call, Cutter& cutter);

 private:
  struct WeightChange {
    uint64_t firstCall;  // the first call that is cut with these weights
    std::vector<uint64_t> weights;
  };
  Result<Recovery> agree(const Calls& calls, const DataPlane* plane, const DataPlane::EndedLane& lane,
                         Deadline deadline) const;
  void log(const ServerLost& loss, double seconds) const;

  const Session& session_;
  std::vector<bool> lost_;            // by server
  std::deque<WeightChange> changes_;  // in the order of the calls
};

}  // namespace bps
