// ServerMembership: which servers take part in which calls of a communicator, on this rank. It handles the events of
// servers (ServerEvents) and gives the cutter the weights for every call. Only the holder of the progress lock uses it.
#pragma once
#include <cstdint>

#include "src/comm/lanes/data_plane.h"
#include "src/comm/servers/server_change.h"
#include "src/comm/servers/server_events.h"
#include "src/comm/servers/server_rates.h"
#include "src/comm/servers/server_recovery.h"
#include "src/comm/servers/server_weights.h"
#include "src/control/control_plane.h"
#include "src/net/waiter.h"
#include "src/plan/cutter.h"

namespace bps {

class ServerMembership {
 public:
  // `depth` is as in JobPlan. `plane` is null if this rank does not use the network. All arguments must outlive this
  // object.
  ServerMembership(ServerEvents& events, ControlPlane& control, size_t depth, DataPlane* plane, net::Waiter& waiter)
      : events_(events),
        control_(control),
        plane_(plane),
        weights_(control.roster()),
        recovery_(control, depth, weights_, plane, waiter),
        change_(control, weights_, plane, waiter),
        rates_(control.roster().machines.size(), control.roster().servers.size()) {}

  bool eventsPending() const { return events_.pending(); }
  // Handles the oldest pending event and returns it. May block for a few round trips between the ranks if a server is
  // lost (ServerRecovery::recover()).
  Result<ServerEvent> handleOldest(const ServerRecovery::Calls& calls);
  // Goes on with a change. Returns whether anything moved.
  Result<bool> step(uint64_t callsBegun) { return change_.step(callsBegun); }
  // True if this rank may begin the call with this number.
  bool mayBegin(uint64_t call) const { return change_.mayBegin(call); }
  // True if step() must be called without an event.
  bool connecting() const { return change_.connecting(); }
  // Gives the cutter the weights for the call that begins next.
  Status beforeCall(uint64_t call, Cutter& cutter) {
    if (weights_.changeAt(call)) rates_.noteNewShares();
    return weights_.beforeCall(call, cutter);
  }
  // Rank 0 proposes another rate if a server has become slower or may be faster. Call this function often.
  void checkRates();

 private:
  ServerEvents& events_;
  ControlPlane& control_;
  DataPlane* const plane_;
  ServerWeights weights_;
  ServerRecovery recovery_;
  ServerChange change_;
  ServerRates rates_;
  Deadline nextRateCheck_ = Deadline::in({});
};

}  // namespace bps
