#include "src/service/peer_wait.h"

#include <set>
#include <string_view>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr size_t kMaxNames = 8;

}  // namespace

std::string namePeers(const std::vector<PeerWait>& waits, PeerWait::Data data, bool done) {
  std::set<std::string_view> missing, named;
  for (const PeerWait& wait : waits)
    if (wait.data == data && wait.missing > 0) missing.insert(wait.peer);
  std::string names;
  for (const PeerWait& wait : waits) {
    if (wait.data != data || missing.contains(wait.peer) == done || !named.insert(wait.peer).second) continue;
    if (named.size() <= kMaxNames) names += (names.empty() ? "" : ", ") + wait.peer;
  }
  if (named.size() > kMaxNames) names += fmt::format(" and {} more", named.size() - kMaxNames);
  return names;
}

std::string describeWaits(const std::vector<PeerWait>& waits) {
  using Data = PeerWait::Data;
  std::string text;
  const auto add = [&](const char* what, const std::string& names) {
    if (!names.empty()) text += fmt::format("{}{}: {}", text.empty() ? "" : "; ", what, names);
  };
  add("contribution missing from", namePeers(waits, Data::kContribution, false));
  add("sums missing from", namePeers(waits, Data::kSum, false));
  if (text.empty()) return text;
  add("contribution arrived from", namePeers(waits, Data::kContribution, true));
  add("all sums arrived from", namePeers(waits, Data::kSum, true));
  return text;
}

}  // namespace bps
