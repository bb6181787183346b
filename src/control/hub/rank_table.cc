#include "src/control/hub/rank_table.h"

#include <map>

#include "src/base/format.h"
#include "src/control/link/printable.h"

namespace bps {
namespace {

std::string nameOf(const Join& join) { return fmt::format("rank {} ({}, pid {})", join.rank, join.hostName, join.pid); }

std::string fabricOf(const Join& join) {
  return join.fabric.empty() ? "no BPS_FABRIC" : "BPS_FABRIC=" + printable(join.fabric);
}

}  // namespace

RankTable::RankTable(const Join& hub, std::vector<std::string> names) : ranks_(hub.nRanks), names_(std::move(names)) {
  ranks_[0] = hub;
  joinedCount_ = 1;
}

Status RankTable::admit(const Join& join) {
  const Join& hub = *ranks_[0];
  if (join.group != hub.group)
    return failure(Code::kInvalidArgument, "ranks shrink differently: {} excludes {}, {} excludes {}", nameOf(hub),
                   hub.group, nameOf(join), join.group);
  if (join.nRanks != hub.nRanks)
    return failure(Code::kInvalidUsage, "ranks disagree about the number of ranks: {} says {}, {} says {}", nameOf(hub),
                   hub.nRanks, nameOf(join), join.nRanks);
  if (join.fabric != hub.fabric)
    return failure(Code::kInvalidUsage, "{} has {}, but {} has {}", nameOf(join), fabricOf(join), nameOf(hub),
                   fabricOf(hub));
  if (join.rank >= ranks_.size())
    return failure(Code::kInvalidArgument, "rank {} is out of range: the communicator has {} ranks", join.rank,
                   ranks_.size());
  if (ranks_[join.rank])
    return failure(Code::kInvalidArgument, "rank {} is taken by {}", join.rank, nameOf(*ranks_[join.rank]));
  severalMachines_ = severalMachines_ || join.hostId != hub.hostId;
  ranks_[join.rank] = join;
  ++joinedCount_;
  return {};
}

std::string RankTable::name(size_t rank) const {
  if (ranks_[rank]) return nameOf(*ranks_[rank]);
  return names_.empty() ? fmt::format("rank {}", rank) : names_[rank];
}

uint32_t RankTable::via(size_t rank) const {
  const uint32_t via = ranks_[rank] ? ranks_[rank]->via : Join::kDirect;
  return via < ranks_.size() && via != rank ? via : Join::kDirect;
}

std::string RankTable::missing() const {
  std::vector<uint32_t> absent;
  std::string names;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank]) continue;
    absent.push_back(rank);
    names += (names.empty() ? "" : ", ") + name(rank);
  }
  return fmt::format("{} of {} ranks missing: {}", absent.size(), ranks_.size(),
                     names_.empty() ? rankRanges(absent) : names);
}

Roster RankTable::roster(uint64_t jobId, const JobSettings& settings) const {
  Roster roster;
  roster.jobId = jobId;
  roster.settings = settings;
  std::map<std::string, uint32_t> machineOf;
  for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
    const Join& join = *ranks_[rank];
    const auto [it, fresh] = machineOf.try_emplace(join.hostId, static_cast<uint32_t>(roster.machines.size()));
    if (fresh) roster.machines.push_back({{}, join.bytesPerSecond});
    Machine& machine = roster.machines[it->second];
    roster.ranks.push_back(
        {join.hostId, join.hostName, join.pid, it->second, static_cast<uint32_t>(machine.ranks.size()), join.standby});
    machine.ranks.push_back(rank);
  }
  return roster;
}

}  // namespace bps
