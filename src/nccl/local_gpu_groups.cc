#include "src/nccl/local_gpu_groups.h"

#include <algorithm>
#include <cstring>
#include <map>

#include "src/base/format.h"
#include "src/control/host_id.h"
#include "src/nccl/gpu_locality.h"

namespace bps::nccl {
namespace {

uint64_t hashOf(std::string_view text) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

struct GroupSize {
  int ranks = 0, roots = 0;
  int owners() const { return roots > 0 ? roots : ranks; }
};
using GroupSizes = std::map<uint64_t, GroupSize>;

std::string noGroupsReason(std::span<const PeerInfo> peers, int largest) {
  for (size_t rank = 0; rank < peers.size(); ++rank)
    if (peers[rank].gpuGroup == 0)
      return fmt::format("rank {} has no local GPU group{}{}", rank, peers[rank].why.empty() ? "" : ": ",
                         peers[rank].why);
  return largest == 1 ? "no two GPUs share a machine or a switch" : std::string();
}

std::string noRankOrderReason(std::span<const PeerInfo> peers) {
  for (size_t rank = 0; rank < peers.size(); ++rank)
    if (peers[rank].addsAlongRing) return fmt::format("the machine of rank {} adds along a ring of its GPUs", rank);
  return {};
}

// Rank 0 of a communicator determines its servers. The communicators of all parts must use the same
// servers, so BPS_SERVERS must be set alike on the first owners of all parts.
std::string serverMismatch(std::span<const PeerInfo> peers, const LocalGpuGroups& gpuGroups) {
  for (size_t rank = 0; rank < peers.size(); ++rank)
    if (gpuGroups.leaders[rank] == 0 && gpuGroups.owns(static_cast<int>(rank)) &&
        peers[rank].hasServers != peers[0].hasServers)
      return fmt::format("BPS_SERVERS is not set alike on ranks 0 and {}", rank);
  return {};
}

}  // namespace

PeerInfo PeerInfo::detect(int device, const Env& env, std::string without) {
  PeerInfo peer;
  peer.machine = hashOf(localHostId(env));
  peer.hasServers = !env.servers.empty();
  peer.allowsAnyOrder = env.ncclLocal == "any";
  peer.why = env.ncclLocal == "off" ? "BPS_NCCL_LOCAL=off" : std::move(without);
  if (!peer.why.empty()) return peer;
  const GpuLocality locality = gpuLocalityOf(device, env);
  peer.gpuGroup = hashOf(localHostId(env) + "\n" + locality.switchName);
  peer.root = locality.root;
  peer.addsAlongRing = locality.addsAlongRing;
  return peer;
}

void PeerInfo::put(WireWriter& writer) const {
  const auto flags =
      static_cast<uint8_t>((root ? 1 : 0) | (allowsAnyOrder ? 2 : 0) | (hasServers ? 4 : 0) | (addsAlongRing ? 8 : 0));
  writer.put(machine).put(gpuGroup).put(flags).put(why.substr(0, 200));
}

void PeerInfo::get(WireReader& reader) {
  machine = reader.get<uint64_t>();
  gpuGroup = reader.get<uint64_t>();
  const auto flags = reader.get<uint8_t>();
  root = (flags & 1) != 0;
  allowsAnyOrder = (flags & 2) != 0;
  hasServers = (flags & 4) != 0;
  addsAlongRing = (flags & 8) != 0;
  why = reader.getString();
}

Blob RankStatus::encode(const Status& status, std::span<const char, kIdBytes> id) {
  WireWriter writer;
  writer.put(static_cast<uint8_t>(status.code())).put(std::string(status.message()).substr(0, 240));
  Blob record = std::move(writer).take();
  record.resize(kBytes);
  std::memcpy(record.data() + kBytes - kIdBytes, id.data(), kIdBytes);
  return record;
}

std::string RankStatus::firstFailure(std::span<const Blob> all) {
  std::string text;
  bool onlyTimeouts = true;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    WireReader reader(all[rank]);
    const auto code = static_cast<Code>(reader.get<uint8_t>());
    const bool readable = all[rank].size() == kBytes;
    if (readable && code == Code::kOk) continue;
    const std::string why = readable ? reader.getString() : "its record cannot be read";
    const bool isTimeout = readable && code == Code::kTimeout;
    if (text.empty() || (onlyTimeouts && !isTimeout)) text = fmt::format("rank {}: {}", rank, why);
    onlyTimeouts = onlyTimeouts && isTimeout;
  }
  return text;
}

void RankStatus::readId(std::span<const uint8_t> record, std::span<char, kIdBytes> id) {
  std::memcpy(id.data(), record.data() + kBytes - kIdBytes, kIdBytes);
}

int LocalGpuGroups::sizeOf(int rank) const {
  return static_cast<int>(std::count(leaders.begin(), leaders.end(), leaderOf(rank)));
}

std::vector<int> LocalGpuGroups::placesOf(int rank) const {
  std::vector<int> places(static_cast<size_t>(sizeOf(rank)));
  int place = 0;
  for (size_t other = 0; other < leaders.size(); ++other)
    if (leaders[other] == leaderOf(rank)) places[static_cast<size_t>(groupRanks[other])] = place++;
  return places;
}

std::string LocalGpuGroups::ownersOf(int part) const {
  std::string ranks;
  for (size_t rank = 0; rank < groupRanks.size(); ++rank)
    if (groupRanks[rank] == part) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  return ranks;
}

LocalGpuGroups formLocalGpuGroups(std::span<const PeerInfo> peers) {
  LocalGpuGroups gpuGroups;
  GroupSizes sizes, assigned;
  std::map<uint64_t, int> leaders;
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    const PeerInfo& peer = peers[rank];
    gpuGroups.leaders.push_back(leaders.emplace(peer.gpuGroup, static_cast<int>(rank)).first->second);
    ++sizes[peer.gpuGroup].ranks;
    sizes[peer.gpuGroup].roots += peer.root ? 1 : 0;
  }
  for (const PeerInfo& peer : peers) {
    GroupSize& before = assigned[peer.gpuGroup];
    gpuGroups.groupRanks.push_back(peer.root ? before.roots++ : sizes[peer.gpuGroup].roots + before.ranks++);
  }
  gpuGroups.groupCount = static_cast<int>(sizes.size());
  int largest = 0;
  for (const auto& [gpuGroup, size] : sizes) largest = std::max(largest, size.ranks);
  gpuGroups.order = {peers[0].allowsAnyOrder, largest <= 2, false};
  if (!peers[0].allowsAnyOrder) gpuGroups.noRankOrder = noRankOrderReason(peers);
  gpuGroups.why = noGroupsReason(peers, largest);
  if (!gpuGroups.why.empty()) return gpuGroups;
  gpuGroups.owners = std::min_element(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
                       return a.second.owners() < b.second.owners();
                     })->second.owners();
  gpuGroups.why = serverMismatch(peers, gpuGroups);
  if (!gpuGroups.why.empty()) gpuGroups.owners = 0;
  return gpuGroups;
}

}  // namespace bps::nccl
