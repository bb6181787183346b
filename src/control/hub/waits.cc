#include "src/control/hub/waits.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {

// What another member says is not trusted to make sense.
bool Waits::isWaiting(size_t member) const {
  const uint32_t other = members_[member].said.waitsFor;
  return other < members_.size() && other != member;
}

// A machine brings its part when all its ranks have called; a server takes part in every call.
bool Waits::hasBegun(size_t member, uint64_t call) const {
  if (member >= roster_.ranks.size()) return true;
  const std::vector<uint32_t>& ranks = roster_.machines[roster_.ranks[member].machine].ranks;
  return std::all_of(ranks.begin(), ranks.end(), [&](uint32_t rank) { return members_[rank].said.begun > call; });
}

// Follows who waits for whom. Only the last of a chain waits in vain, for a member that waits for nobody; or each of
// those who wait for each other in a circle.
bool Waits::waitsInVain(size_t member) const {
  size_t last = member;
  for (size_t step = 0; step < members_.size(); ++step) {
    const Heartbeat& said = members_[last].said;
    if (!hasBegun(said.waitsFor, said.call)) return false;
    if (said.waitsFor == member) return true;
    if (!isWaiting(said.waitsFor)) return last == member;
    last = said.waitsFor;
  }
  return false;
}

Status Waits::check(TimePoint now) {
  const std::chrono::milliseconds timeout(roster_.settings.timeoutMs);
  for (size_t m = 0; m < members_.size(); ++m) {
    Member& member = members_[m];
    const Heartbeat stuck = isWaiting(m) && waitsInVain(m) ? member.said : Heartbeat();
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
