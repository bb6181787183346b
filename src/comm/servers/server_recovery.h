// ServerRecovery: lets the calls of a communicator go on after the loss of servers. It carries out, on
// this rank, the steps that comm/lanes/recovery.h describes. The ServerRecovery belongs to the
// CallScheduler, and only the holder of the progress lock uses it.
#pragma once
#include <cstdint>

#include "src/comm/lanes/data_plane.h"
#include "src/comm/servers/call_cutter.h"
#include "src/control/control_plane.h"
#include "src/net/waiter.h"

namespace bps {

class ServerRecovery {
 public:
  // `depth` is as in JobPlan. `plane` is null if this rank does not use the network. All arguments must outlive this
  // object.
  ServerRecovery(ControlPlane& control, size_t depth, CallCutter& cutter, DataPlane* plane, net::Waiter& waiter)
      : control_(control), depth_(depth), cutter_(cutter), plane_(plane), waiter_(waiter) {}

  // Goes on without a server. Blocks for a few round trips between the ranks, while no call of this rank moves: the
  // other ranks do the same. `unfinishedCalls` is true if a call of this rank has not ended.
  Status recover(const ServerEvent& loss, bool unfinishedCalls);

 private:
  Status recoverFrom(const ServerEvent& loss, uint64_t callsCut, bool unfinishedCalls);
  Result<Recovery> agree(uint64_t callsCut, const DataPlane::EndedLane& lane, Deadline deadline) const;
  void log(const ServerEvent& loss, double seconds) const;

  ControlPlane& control_;
  const size_t depth_;
  CallCutter& cutter_;
  DataPlane* const plane_;
  net::Waiter& waiter_;
};

}  // namespace bps
