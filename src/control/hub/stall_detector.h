// StallDetector: finds two members that cannot reach each other, from the heartbeats of all members.
//
// A member that has waited for the timeout reports in its heartbeat which member it waits for, and in which call.
// Waiting for a member that has not begun the call is no failure, however long it takes. But if the other member has
// begun the call and does not itself wait for a third one, its data should have arrived. If nothing changes for another
// timeout, the two cannot reach each other. This works for any transport, even one that never reports an error.
//
// Does no I/O. The Hub owns it; belongs to the control thread.
#pragma once
#include <chrono>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/status.h"
#include "src/wire/control_messages.h"
#include "src/wire/roster.h"

namespace bps {

class StallDetector {
 public:
  using TimePoint = Deadline::Clock::time_point;

  // The roster must outlive this object.
  explicit StallDetector(const Roster& roster) : roster_(roster), members_(roster.members()) {}

  // Records the member's latest heartbeat.
  void onHeartbeat(size_t member, const Heartbeat& heartbeat) { members_[member].reported = heartbeat; }
  // Call regularly. Fails with an error that names both members if two members cannot reach each other.
  Status check(TimePoint now);

 private:
  struct MemberState {
    Heartbeat reported, stalled;  // stalled: the heartbeat when the stall was first seen
    TimePoint since{};
  };

  bool isWaiting(size_t member) const;
  bool hasBegun(size_t member, uint64_t call) const;
  bool isStalled(size_t member) const;

  const Roster& roster_;
  std::vector<MemberState> members_;
};

}  // namespace bps
