// StallDetector: examines the heartbeats of all members to find two members that cannot reach each other.
//
// If a member has waited for Roster::waitReportTime(), its heartbeat reports for which member it waits, and in which
// call. If the awaited member has not begun the call, the wait is no failure, however long it takes. If the awaited
// member has begun the call and does not wait for a third member, its data should have arrived. If this state lasts,
// the two members cannot reach each other. It must last until two ranks have waited 2 BPS_TIMEOUT for each other, and
// for another waitReportTime() if one of the two members is a server, which the communicator can do without. This
// time counts only while the heartbeats of both members arrive, so that a process that was stopped is not blamed. The
// StallDetector works for any transport, even for a transport that never reports an error.
//
// The awaited member may itself wait for a third member, and not have reported it yet. New waits are reported at once
// (link.h), and nobody is blamed before a heartbeat of the awaited member has come that is later than the reported
// wait.
//
// The StallDetector does no I/O and belongs to the Hub. Only the control thread uses the StallDetector.
#pragma once
#include <chrono>
#include <optional>
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
  // `heartbeats` is the number of heartbeats that the member has sent.
  void onHeartbeat(size_t member, const Heartbeat& heartbeat, uint64_t heartbeats) {
    members_[member].reported = heartbeat;
    members_[member].heartbeats = heartbeats;
  }
  // Two members that cannot reach each other. The failure names both.
  struct Stall {
    size_t member, awaited;
    Status failure;
  };
  // Call check() at least once between two heartbeats.
  std::optional<Stall> check(TimePoint now);
  // Forgets since when members have been stalled. Only the time after `from`, which may be in the future, counts.
  void restart(TimePoint from);

 private:
  struct MemberState {
    Heartbeat reported, stalled;                  // `stalled` is the heartbeat of the current stall, if there is one
    uint64_t heartbeats = 0, heartbeatsSeen = 0;  // at present, and in the last check()
    TimePoint since{};
    TimePoint heardAt{}, steadySince{};  // the latest heartbeat, and the end of the latest gap between heartbeats
  };

  bool isWaiting(size_t member) const;
  bool hasBegun(size_t member, uint64_t call) const;
  size_t heldUpBy(size_t member, uint64_t call) const;
  bool isStalled(size_t member) const;
  void noteHeartbeats(TimePoint now);
  std::chrono::milliseconds stallTime(size_t member, size_t awaited) const;

  const Roster& roster_;
  std::vector<MemberState> members_;
};

}  // namespace bps
