#include "src/nccl/teams.h"

#include <algorithm>
#include <atomic>
#include <map>

#include "src/base/format.h"
#include "src/control/host_id.h"
#include "src/nccl/neighbours.h"

namespace bps::nccl {
namespace {

uint64_t hashOf(std::string_view text) {  // FNV-1a
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3;
  return hash;
}

struct Size {
  int ranks = 0, roots = 0;
  int owners() const { return roots > 0 ? roots : ranks; }
};
using Sizes = std::map<uint64_t, Size>;

std::string reasonAgainst(std::span<const Member> members, const Sizes& sizes, bool oneTeamEach) {
  for (size_t rank = 0; rank < members.size(); ++rank)
    if (members[rank].team == 0)
      return fmt::format("rank {} has no team{}{}", rank, members[rank].why.empty() ? "" : ": ", members[rank].why);
  int largest = 0;
  for (const auto& [team, size] : sizes) largest = std::max(largest, size.ranks);
  if (largest == 1) return "no two GPUs share a machine or a switch";
  // A sum of two has no order; that of more would depend on NCCL's.
  if (!members[0].anyOrder && (largest > 2 || !oneTeamEach))
    return "more than two ranks share a machine, so sums would depend on NCCL's order (BPS_NCCL_LOCAL=any)";
  return {};
}

// Who is rank 0 of a communicator of bps finds the servers, and it is to be all the same which part one owns.
std::string differentServers(std::span<const Member> members, const Teams& teams) {
  for (size_t rank = 0; rank < members.size(); ++rank)
    if (teams.leads[rank] == 0 && teams.places[rank] < teams.owners &&
        members[rank].hasServers != members[0].hasServers)
      return fmt::format("BPS_SERVERS is not set alike on ranks 0 and {}", rank);
  return {};
}

std::atomic<bool> leftToCaller{false};

}  // namespace

void leaveTeamsToCaller() { leftToCaller.store(true, std::memory_order_relaxed); }
bool teamsLeftToCaller() { return leftToCaller.load(std::memory_order_relaxed); }

Member Member::of(int device, const Env& env, std::string without) {
  Member member;
  member.machine = hashOf(localHostId(env));
  member.hasServers = !env.servers.empty();
  member.anyOrder = env.ncclLocal == "any";
  member.why = env.ncclLocal == "off" ? "BPS_NCCL_LOCAL=off" : std::move(without);
  if (!member.why.empty()) return member;
  const Neighbourhood near = neighbourhoodOf(device, env);
  member.team = hashOf(localHostId(env) + "\n" + near.name);
  member.root = near.root;
  return member;
}

void Member::put(WireWriter& writer) const {
  const auto flags = static_cast<uint8_t>((root ? 1 : 0) | (anyOrder ? 2 : 0) | (hasServers ? 4 : 0));
  writer.put(machine).put(team).put(flags).put(why.substr(0, 200));
}

void Member::get(WireReader& reader) {
  machine = reader.get<uint64_t>();
  team = reader.get<uint64_t>();
  const auto flags = reader.get<uint8_t>();
  root = (flags & 1) != 0;
  anyOrder = (flags & 2) != 0;
  hasServers = (flags & 4) != 0;
  why = reader.getString();
}

int Teams::sizeOf(int rank) const { return static_cast<int>(std::count(leads.begin(), leads.end(), leadOf(rank))); }

std::string Teams::ownersOf(int part) const {
  std::string ranks;
  for (size_t rank = 0; rank < places.size(); ++rank)
    if (places[rank] == part) ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
  return ranks;
}

Teams teamsOf(std::span<const Member> members) {
  Teams teams;
  Sizes sizes, met;
  std::map<uint64_t, int> leads;
  std::map<uint64_t, uint64_t> teamOf;  // by machine
  bool oneTeamEach = true;
  for (size_t rank = 0; rank < members.size(); ++rank) {
    const Member& member = members[rank];
    teams.leads.push_back(leads.emplace(member.team, static_cast<int>(rank)).first->second);
    ++sizes[member.team].ranks;
    sizes[member.team].roots += member.root ? 1 : 0;
    oneTeamEach = teamOf.emplace(member.machine, member.team).first->second == member.team && oneTeamEach;
  }
  for (const Member& member : members) {
    Size& before = met[member.team];
    teams.places.push_back(member.root ? before.roots++ : sizes[member.team].roots + before.ranks++);
  }
  teams.number = static_cast<int>(sizes.size());
  teams.anyOrder = members[0].anyOrder;
  teams.why = reasonAgainst(members, sizes, oneTeamEach);
  if (!teams.why.empty()) return teams;
  teams.owners = std::min_element(sizes.begin(), sizes.end(), [](const auto& a, const auto& b) {
                   return a.second.owners() < b.second.owners();
                 })->second.owners();
  teams.why = differentServers(members, teams);
  if (!teams.why.empty()) teams.owners = 0;
  return teams;
}

}  // namespace bps::nccl
