// ServerMembership: which servers take part in which calls of a communicator, on this rank. It handles the events of
// servers (ServerEvents) and decides when a call may begin. Only the holder of the progress lock uses it.
#pragma once
#include <cstdint>

#include "src/comm/lanes/data_plane.h"
#include "src/comm/servers/call_cutter.h"
#include "src/comm/servers/server_change.h"
#include "src/comm/servers/server_events.h"
#include "src/comm/servers/server_rates.h"
#include "src/comm/servers/server_recovery.h"
#include "src/control/control_plane.h"
#include "src/net/waiter.h"

namespace bps {

class ServerMembership {
 public:
  // `depth` is as in JobPlan. `plane` is null if this rank does not use the network. All arguments must outlive this
  // object.
  ServerMembership(ServerEvents& events, ControlPlane& control, size_t depth, CallCutter& cutter, DataPlane* plane,
                   net::Waiter& waiter)
      : events_(events),
        control_(control),
        plane_(plane),
        weights_(cutter.weights()),
        recovery_(control, depth, cutter, plane, waiter),
        change_(control, cutter, plane, waiter),
        rates_(control.roster().machines.size(), control.roster().servers.size()) {}

  bool eventsPending() const { return events_.pending(); }
  // True if the oldest event concerns connections of its server.
  bool nextChangesLane() const {
    using Kind = ServerEvent::Kind;
    const Kind kind = events_.oldest()->kind;
    return kind == Kind::kJoining || kind == Kind::kLeaving || kind == Kind::kLost;
  }
  uint32_t nextServer() const { return events_.oldest()->server; }  // of the oldest event, which must exist
  // Handles the oldest pending event and returns it. May block for a few round trips between the ranks if a server is
  // lost (ServerRecovery::recover()).
  Result<ServerEvent> handleOldest(bool unfinishedCalls);
  // Takes the oldest event, for asynchronous training, where no change or recovery follows.
  ServerEvent takeOldest() {
    ServerEvent event = *events_.oldest();
    events_.handled();
    return event;
  }
  // Goes on with a change. Returns whether anything moved.
  Result<bool> step(uint64_t callsBegun) { return change_.step(callsBegun); }
  // True if this rank may begin the call with this number.
  bool mayBegin(uint64_t call) const { return change_.mayBegin(call); }
  // True if step() must be called without an event.
  bool connecting() const { return change_.connecting(); }
  // Call this function when a call begins.
  void beforeBegin(uint64_t call) {
    if (weights_.changeAt(call)) rates_.noteNewShares();
    weights_.beforeBegin(call);
  }
  // Rank 0 proposes another rate if a server has become slower or may be faster. Call this function often.
  void checkRates();

 private:
  ServerEvents& events_;
  ControlPlane& control_;
  DataPlane* const plane_;
  ServerWeights& weights_;
  ServerRecovery recovery_;
  ServerChange change_;
  ServerRates rates_;
  Deadline nextRateCheck_ = Deadline::in({});
};

}  // namespace bps
