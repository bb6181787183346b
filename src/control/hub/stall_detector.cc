#include "src/control/hub/stall_detector.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {

// What another member says is not trusted to make sense.
bool StallDetector::isWaiting(size_t member) const {
  const uint32_t other = members_[member].reported.waitsFor;
  return other < members_.size() && other != member;
}

// A machine brings its part when all its ranks have called; a server takes part in every call.
bool StallDetector::hasBegun(size_t member, uint64_t call) const {
  if (member >= roster_.ranks.size()) return true;
  const std::vector<uint32_t>& ranks = roster_.machines[roster_.ranks[member].machine].ranks;
  return std::all_of(ranks.begin(), ranks.end(),
                     [&](uint32_t rank) { return members_[rank].reported.callsStarted > call; });
}

// Follows who waits for whom. Only the last of a chain waits in vain, for a member that waits for nobody; or each of
// those who wait for each other in a circle.
bool StallDetector::isStalled(size_t member) const {
  size_t last = member;
  for (size_t step = 0; step < members_.size(); ++step) {
    const Heartbeat& reported = members_[last].reported;
    if (!hasBegun(reported.waitsFor, reported.call)) return false;
    if (reported.waitsFor == member) return true;
    if (!isWaiting(reported.waitsFor)) return last == member;
    last = reported.waitsFor;
  }
  return false;
}

Status StallDetector::check(TimePoint now) {
  const std::chrono::milliseconds timeout(roster_.settings.timeoutMs);
  for (size_t m = 0; m < members_.size(); ++m) {
    MemberState& member = members_[m];
    const Heartbeat stuck = isWaiting(m) && isStalled(m) ? member.reported : Heartbeat();
    if (stuck.waitsFor == Heartbeat::kNobody || !member.stuck.sameWait(stuck)) member.since = now;
    member.stuck = stuck;
    if (now - member.since < timeout) continue;
    return failure(Code::kRemote,
                   "{} and {} cannot reach each other: what call #{} needs of the second has not come to "
                   "the first for {:g} s, though both have called",
                   roster_.memberName(m), roster_.memberName(stuck.waitsFor), stuck.call,
                   std::chrono::duration<double>(2 * timeout).count());
  }
  return {};
}

}  // namespace bps
