// StallDetector: which two members of a communicator cannot reach each other, by what the heartbeats of all members
// say.
//
// A member that has waited for the time-out says for whom, and with which call. Nobody is blamed for not having called
// yet, for as long as that takes. But when the other one has begun the call, and does not wait for a third one in turn,
// what it sent should have come: if nothing changes for another time-out, the two cannot reach each other. This holds
// for any transport, also one that never fails by itself. Pure; belongs to the control thread.
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

  // The roster outlives this.
  explicit StallDetector(const Roster& roster) : roster_(roster), members_(roster.members()) {}

  // The latest heartbeat of the member.
  void onHeartbeat(size_t member, const Heartbeat& heartbeat) { members_[member].reported = heartbeat; }
  // Call now and then. Fails naming both when two members cannot reach each other.
  Status check(TimePoint now);

 private:
  struct MemberState {
    Heartbeat reported, stuck;  // the second: when it was first found that it waits in vain
    TimePoint since{};
  };

  bool isWaiting(size_t member) const;
  bool hasBegun(size_t member, uint64_t call) const;
  bool isStalled(size_t member) const;

  const Roster& roster_;
  std::vector<MemberState> members_;
};

}  // namespace bps
