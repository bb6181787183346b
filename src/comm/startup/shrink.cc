#include "src/comm/startup/shrink.h"

#include <algorithm>

#include "src/base/checksum/crc32c.h"
#include "src/base/format.h"
#include "src/control/keys/crypto.h"

namespace bps {
namespace {

constexpr size_t kListChars = 1000;  // the length of a text in a message is limited

// Returns the excluded ranks as text. A long text ends with a checksum instead of the last ranks.
std::string groupName(const std::vector<uint32_t>& excluded) {
  std::string list = rankRanges(excluded);
  if (list.size() <= kListChars) return list;
  return fmt::format("{}... (checksum {:08x})", list.substr(0, kListChars), crc32c(list.data(), list.size()));
}

// The key depends on the parent, but not on the excluded ranks. So if two ranks exclude different
// ranks, they can still tell each other.
Key shrunkenKey(const Key& parentKey, uint64_t parentJob) {
  WireWriter secret;
  secret.putRaw(parentKey).put(parentJob);
  return deriveKey("a shrunken communicator", secret.bytes());
}

}  // namespace

Membership shrunkenMembership(const ControlPlane& parent, const Key& key, const std::vector<uint32_t>& excluded) {
  const Roster& roster = parent.roster();
  std::vector<uint32_t> group;
  ShrinkGroup shrink;
  for (uint32_t rank = 0; rank < roster.ranks.size(); ++rank) {
    if (std::binary_search(excluded.begin(), excluded.end(), rank)) continue;
    group.push_back(rank);
    shrink.rankNames.push_back(roster.rankName(rank));
  }
  shrink.name = groupName(excluded);
  shrink.standby = parent.standby();
  Membership membership = membershipIn(group, parent);
  membership.id.address = roster.ranks[group.front()].standby;
  membership.id.key = shrunkenKey(key, roster.jobId);
  membership.shrink = std::move(shrink);
  return membership;
}

}  // namespace bps
