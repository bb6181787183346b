#include "src/control/hub/stall_detector.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

// On a machine whose CPUs are busy, heartbeats may be this late.
constexpr std::chrono::milliseconds kMaxLateness(300);

}  // namespace

// True if the member's heartbeat names another member for which it waits. If the heartbeat has a number that no member
// has, the result is false.
bool StallDetector::isWaiting(size_t member) const {
  const uint32_t other = members_[member].reported.waitsFor;
  return other < members_.size() && other != member;
}

// True if all ranks of the member's machine have begun the call. A machine sends data only after all its ranks have
// begun the call. The result is always true for a server, because a server takes part in every call.
bool StallDetector::hasBegun(size_t member, uint64_t call) const {
  if (member >= roster_.ranks.size()) return true;
  const std::vector<uint32_t>& ranks = roster_.machines[roster_.ranks[member].machine].ranks;
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](uint32_t rank) { return members_[rank].reported.callsStarted > call; });
}

// Returns the member whose wait holds up `member` in the call: the member itself, or a rank of its machine, because the
// ranks of a machine wait for each other in every call. If nobody waits, returns the member itself.
size_t StallDetector::heldUpBy(size_t member, uint64_t call) const {
  const auto waits = [&](size_t other) { return isWaiting(other) && members_[other].reported.call <= call; };
  if (waits(member) || member >= roster_.ranks.size()) return member;
  const std::vector<uint32_t>& ranks = roster_.machines[roster_.ranks[member].machine].ranks;
  const auto rank = std::find_if(ranks.begin(), ranks.end(), waits);
  return rank == ranks.end() ? member : *rank;
}

// Follows the chain of waits: `member` waits for a second member, the second member may wait for a third, and so on. A
// member's heartbeat reports the oldest call in which the member waits. So a member that waits in a later call than the
// previous member has everything for the previous member's call, and the chain ends there.
// `member` is stalled in two cases: the chain ends at the second member, or the chain leads back to `member`. `member`
// is not stalled if a member of the chain has not begun the call in which the previous member waits for it.
bool StallDetector::isStalled(size_t member) const {
  size_t last = member;
  for (size_t step = 0; step < members_.size(); ++step) {
    const Heartbeat& reported = members_[last].reported;
    if (!hasBegun(reported.waitsFor, reported.call)) return false;
    const size_t next = heldUpBy(reported.waitsFor, reported.call);
    if (reported.waitsFor == member || next == member) return true;
    const bool waits = isWaiting(next) && members_[next].reported.call <= reported.call;
    if (!waits) return last == member;
    last = next;
  }
  return false;
}

// How long a member must wait after it has reported its wait.
std::chrono::milliseconds StallDetector::stallTime(size_t member, size_t awaited) const {
  const size_t ranks = roster_.ranks.size();
  if (member >= ranks || awaited >= ranks) return roster_.waitReportTime();
  return 2 * std::chrono::milliseconds(roster_.settings.timeoutMs) - roster_.waitReportTime();
}

void StallDetector::restart(TimePoint from) {
  for (MemberState& member : members_) member.since = from;
}

// If heartbeats of a member are missing, the time before the next one does not count.
void StallDetector::noteHeartbeats(TimePoint now) {
  const std::chrono::milliseconds interval(roster_.settings.timeoutMs / 10);
  for (MemberState& member : members_) {
    if (now - member.heardAt > interval + std::max(interval / 2, kMaxLateness)) member.steadySince = now;
    if (member.heartbeats != member.heartbeatsSeen) member.heardAt = now;
    member.heartbeatsSeen = member.heartbeats;
  }
}

std::optional<StallDetector::Stall> StallDetector::check(TimePoint now) {
  noteHeartbeats(now);
  for (size_t m = 0; m < members_.size(); ++m) {
    MemberState& member = members_[m];
    const Heartbeat stalled = isWaiting(m) && isStalled(m) ? member.reported : Heartbeat();
    const bool waits = stalled.waitsFor != Heartbeat::kNobody;
    if (!waits || !member.stalled.sameWait(stalled)) member.since = std::max(member.since, now);
    member.stalled = stalled;
    if (!waits) continue;
    const MemberState& awaited = members_[stalled.waitsFor];
    const TimePoint start = std::max({member.since, member.steadySince, awaited.steadySince});
    if (now - start < stallTime(m, stalled.waitsFor) || awaited.heardAt <= start) continue;
    const std::chrono::duration<double> waited = now - member.since + roster_.waitReportTime();
    return Stall{m, stalled.waitsFor,
                 failure(Code::kRemote,
                         "{} and {} cannot reach each other: in call #{}, which both have begun, the first "
                         "has waited {:.1f} s for the second",
                         roster_.memberName(m), roster_.memberName(stalled.waitsFor), stalled.call, waited.count())};
  }
  return std::nullopt;
}

}  // namespace bps
