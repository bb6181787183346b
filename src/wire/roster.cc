#include "src/wire/roster.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "src/base/format.h"
#include "src/base/mutex.h"
#include "src/wire/control_messages.h"

namespace bps {
namespace {

constexpr uint16_t kRosterVersion = 8;
constexpr size_t kNameBytes = 4096;
constexpr size_t kDefaultMaxRails = 8;  // used if JobSettings::rails is 0; machines rarely have more than 8 NICs

bool goodRate(double rate) { return std::isfinite(rate) && rate >= 0; }

void put(WireWriter& out, const RankEntry& rank) {
  out.put(rank.hostId).put(rank.hostName).put(rank.pid).put(rank.machine).put(rank.localRank);
  out.put(encode(RendezvousReply{rank.standby}));
}

RankEntry getRank(WireReader& in, bool& valid) {
  RankEntry rank;
  rank.hostId = in.getString();
  rank.hostName = in.getString();
  rank.pid = in.get<uint32_t>();
  rank.machine = in.get<uint32_t>();
  rank.localRank = in.get<uint32_t>();
  Result<RendezvousReply> standby = decode<RendezvousReply>(in.getBytes());
  valid = valid && standby.ok();
  if (standby.ok()) rank.standby = std::move(standby).value().hub;
  return rank;
}

Machine getMachine(WireReader& in) {
  Machine machine;
  machine.ranks.resize(in.getCount(sizeof(uint32_t)));
  for (uint32_t& rank : machine.ranks) rank = in.get<uint32_t>();
  machine.bytesPerSecond = in.getDouble();
  return machine;
}

JobSettings getSettings(WireReader& in) {
  JobSettings settings;
  settings.partitionBytes = in.get<uint64_t>();
  settings.exchangeBytes = in.get<uint64_t>();
  settings.singleOwnerBytes = in.get<uint64_t>();
  settings.timeoutMs = in.get<uint32_t>();
  settings.rails = in.get<uint32_t>();
  return settings;
}

// True if ranks and machines are consistent. Every rank must have the machine and the local rank that its entry names,
// and the machines must be ordered by their lowest rank.
bool consistent(const Roster& roster) {
  size_t placed = 0;
  for (size_t m = 0; m < roster.machines.size(); ++m) {
    const Machine& machine = roster.machines[m];
    if (machine.ranks.empty() || !goodRate(machine.bytesPerSecond)) return false;
    if (m > 0 && machine.ranks[0] <= roster.machines[m - 1].ranks[0]) return false;
    for (size_t i = 0; i < machine.ranks.size(); ++i) {
      const uint32_t rank = machine.ranks[i];
      if (rank >= roster.ranks.size() || (i > 0 && rank <= machine.ranks[i - 1])) return false;
      if (roster.ranks[rank].machine != m || roster.ranks[rank].localRank != i) return false;
      ++placed;
    }
  }
  return placed == roster.ranks.size() && placed > 0;
}

bool inRange(const Roster& roster) {
  for (const RankEntry& rank : roster.ranks)
    if (rank.hostId.size() > kNameBytes || rank.hostName.size() > kNameBytes) return false;
  for (const ServerEntry& server : roster.servers)
    if (server.name.size() > kNameBytes || !goodRate(server.bytesPerSecond)) return false;
  return roster.jobId != 0 && roster.settings.timeoutMs != 0 && roster.settings.partitionBytes != 0;
}

}  // namespace

struct JoinedNames::Shared {
  Mutex mutex;
  std::map<size_t, std::string> names BPS_GUARDED_BY(mutex);
};

std::shared_ptr<JoinedNames::Shared> JoinedNames::create() { return std::make_shared<Shared>(); }

void JoinedNames::set(size_t server, std::string name) const {
  MutexLock lock(shared_->mutex);
  shared_->names[server] = std::move(name);
}

std::string JoinedNames::get(size_t server) const {
  MutexLock lock(shared_->mutex);
  const auto found = shared_->names.find(server);
  return found == shared_->names.end() ? std::string() : found->second;
}

std::string rankRanges(const std::vector<uint32_t>& ranks) {
  std::string text;
  for (size_t i = 0; i < ranks.size();) {
    size_t end = i + 1;
    while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[i]);
    if (end - i > 1) text += fmt::format("-{}", ranks[end - 1]);
    i = end;
  }
  return text;
}

std::string Roster::rankName(size_t rank) const {
  if (rank >= ranks.size()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} ({}, pid {})", rank, ranks[rank].hostName, ranks[rank].pid);
}

std::string Roster::endpointName(size_t endpoint) const {
  if (endpoint >= endpoints()) return fmt::format("endpoint {}", endpoint);
  if (isServer(endpoint)) return "server " + serverName(endpoint - machines.size());
  const std::vector<uint32_t>& members = machines[endpoint].ranks;
  if (members.size() == 1) return rankName(members[0]);
  return fmt::format("ranks {} ({})", rankRanges(members), ranks[members[0]].hostName);
}

std::string Roster::serverName(size_t server) const {
  const std::string joined = joinedNames.get(server);
  return joined.empty() ? servers[server].name : joined;
}

std::string Roster::memberName(size_t member) const {
  return member < ranks.size() ? rankName(member) : endpointName(endpointOf(member));
}

size_t Roster::presentServers() const {
  return static_cast<size_t>(
      std::count_if(servers.begin(), servers.end(), [](const ServerEntry& server) { return server.present; }));
}

size_t Roster::rails() const {
  size_t most = settings.rails == 0 ? kDefaultMaxRails : settings.rails;
  for (const Machine& machine : machines) most = std::min(most, machine.ranks.size());
  return most;
}

std::chrono::milliseconds Roster::waitReportTime() const {
  const uint32_t most = servers.empty() ? settings.timeoutMs : settings.serverTimeoutMs / 3;
  return std::chrono::milliseconds(std::min(settings.timeoutMs, std::max(most, 100U)));
}

size_t Roster::memberOf(size_t endpoint, size_t rail) const {
  return isServer(endpoint) ? ranks.size() + (endpoint - machines.size()) : machines[endpoint].ranks[rail];
}

size_t Roster::endpointOf(size_t member) const {
  return member < ranks.size() ? ranks[member].machine : machines.size() + (member - ranks.size());
}

Blob encode(const Roster& roster) {
  WireWriter out;
  out.put(kRosterVersion).put(roster.jobId);
  out.put(static_cast<uint32_t>(roster.ranks.size()));
  for (const RankEntry& rank : roster.ranks) put(out, rank);
  out.put(static_cast<uint32_t>(roster.machines.size()));
  for (const Machine& machine : roster.machines) {
    out.put(static_cast<uint32_t>(machine.ranks.size()));
    for (uint32_t rank : machine.ranks) out.put(rank);
    out.put(machine.bytesPerSecond);
  }
  out.put(static_cast<uint32_t>(roster.servers.size()));
  for (const ServerEntry& server : roster.servers)
    out.put(server.name).put(server.bytesPerSecond).put(static_cast<uint8_t>(server.present ? 1 : 0));
  out.put(roster.settings.partitionBytes).put(roster.settings.exchangeBytes).put(roster.settings.singleOwnerBytes);
  out.put(roster.settings.timeoutMs).put(roster.settings.rails);
  out.put(static_cast<uint8_t>(roster.settings.checksum ? 1 : 0)).put(roster.settings.serverTimeoutMs);
  out.put(roster.settings.fabricN).put(roster.settings.fabricK);
  out.put(static_cast<uint8_t>(roster.settings.parameters ? 1 : 0)).put(roster.settings.staleness);
  return std::move(out).take();
}

Result<Roster> decodeRoster(std::span<const uint8_t> bytes) {
  WireReader in(bytes);
  const auto version = in.get<uint16_t>();
  if (!in.truncated() && version != kRosterVersion)
    return failure(Code::kRemote, "roster version {}, this side speaks {}; rebuild one side", version, kRosterVersion);
  constexpr size_t kRankBytes = 6 * sizeof(uint32_t) + 1, kMachineBytes = 12, kServerBytes = 13;
  Roster roster;
  bool valid = true;
  roster.jobId = in.get<uint64_t>();
  roster.ranks.resize(in.getCount(kRankBytes));
  for (RankEntry& rank : roster.ranks) rank = getRank(in, valid);
  roster.machines.resize(in.getCount(kMachineBytes));
  for (Machine& machine : roster.machines) machine = getMachine(in);
  roster.servers.resize(in.getCount(kServerBytes));
  for (ServerEntry& server : roster.servers) {
    server.name = in.getString();
    server.bytesPerSecond = in.getDouble();
    const auto present = in.get<uint8_t>();
    server.present = present == 1;
    valid = valid && present <= 1;
  }
  roster.settings = getSettings(in);
  const auto checksum = in.get<uint8_t>();
  roster.settings.checksum = checksum == 1;
  roster.settings.serverTimeoutMs = in.get<uint32_t>();
  roster.settings.fabricN = in.get<uint32_t>();
  roster.settings.fabricK = in.get<uint32_t>();
  const auto parameters = in.get<uint8_t>();
  roster.settings.parameters = parameters == 1;
  roster.settings.staleness = in.get<uint32_t>();
  BPS_TRY(in.finish("roster"));
  if (checksum > 1 || parameters > 1 || !valid || !inRange(roster))
    return Status(Code::kRemote, "roster: a field is out of range");
  if (!consistent(roster)) return Status(Code::kRemote, "roster: ranks and machines are inconsistent");
  return roster;
}

}  // namespace bps
