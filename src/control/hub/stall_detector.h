// StallDetector: examines the heartbeats of all members to find two members that cannot reach each other.
//
// If a member has waited for BPS_TIMEOUT, its heartbeat reports for which member it waits, and in which call. If the
// awaited member has not begun the call, the wait is no failure, however long it takes. If the awaited member has begun
// the call and does not wait for a third member, its data should have arrived. If this state lasts for another
// BPS_TIMEOUT, the two members cannot reach each other. The StallDetector works for any transport, even for a transport
// that never reports an error.
//
// The StallDetector does no I/O and belongs to the Hub. Only the control thread uses the StallDetector.
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

  // The roster must outlive the StallDetector.
  explicit StallDetector(const Roster& roster) : roster_(roster), members_(roster.members()) {}

  // Records the member's latest heartbeat.
  void onHeartbeat(size_t member, const Heartbeat& heartbeat) { members_[member].reported = heartbeat; }
  // Call check() regularly. If two members cannot reach each other, check() fails with an error that names the two
  // members.
  Status check(TimePoint now);

 private:
  struct MemberState {
    Heartbeat reported, stalled;  // `stalled` is the heartbeat of the current stall, if there is one
    TimePoint since{};
  };

  bool isWaiting(size_t member) const;
  bool hasBegun(size_t member, uint64_t call) const;
  bool isStalled(size_t member) const;

  const Roster& roster_;
  std::vector<MemberState> members_;
};

}  // namespace bps
