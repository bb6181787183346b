#include "src/comm/lanes/recovery.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

Result<RecoveryItem> decodeItem(const Blob& blob, const Roster& roster) {
  WireReader in(blob);
  RecoveryItem item;
  item.callsCut = in.get<uint64_t>();
  const auto drives = in.get<uint8_t>();
  item.drivesRail = drives == 1;
  item.retired = in.get<uint64_t>();
  item.handles.resize(in.getCount(sizeof(uint32_t)));
  for (Blob& handle : item.handles) handle = in.getBlob();
  BPS_TRY(in.finish("recovery item"));
  if (drives > 1 || item.handles.size() != (item.drivesRail ? roster.machines.size() : 0))
    return failure(Code::kRemote, "recovery item: a field is out of range");
  return item;
}

// Fills in what concerns the rail of this rank.
Status agreeOnRail(Recovery& recovery, const std::vector<RecoveryItem>& items, const Roster& roster, size_t rank,
                   size_t depth) {
  const size_t rail = roster.ranks[rank].localRank, machines = roster.machines.size();
  std::vector<uint64_t> retired(machines);
  for (size_t machine = 0; machine < machines; ++machine) {
    const size_t peer = roster.memberOf(machine, rail);
    if (!items[peer].drivesRail)
      return failure(Code::kRemote, "recovery: {} has no lane on rail {}", roster.rankName(peer), rail);
    retired[machine] = items[peer].retired;
    recovery.handles.push_back(items[peer].handles[roster.ranks[rank].machine]);
  }
  const auto [least, most] = std::minmax_element(retired.begin(), retired.end());
  recovery.from = *least;
  recovery.to = *most;
  if (recovery.to - recovery.from > depth)
    return failure(Code::kRemote, "recovery: {} is {} chunks ahead of {}, more than {}",
                   roster.rankName(roster.memberOf(static_cast<size_t>(most - retired.begin()), rail)),
                   recovery.to - recovery.from,
                   roster.rankName(roster.memberOf(static_cast<size_t>(least - retired.begin()), rail)), depth);
  for (uint64_t chunk = recovery.from; chunk < recovery.to; ++chunk) {
    const auto holder = std::find_if(retired.begin(), retired.end(), [&](uint64_t count) { return count > chunk; });
    recovery.sumHolders.push_back(static_cast<size_t>(holder - retired.begin()));
  }
  return {};
}

}  // namespace

Blob encode(const RecoveryItem& item) {
  WireWriter out;
  out.put(item.callsCut).put(static_cast<uint8_t>(item.drivesRail ? 1 : 0)).put(item.retired);
  out.put(static_cast<uint32_t>(item.handles.size()));
  for (const Blob& handle : item.handles) out.put(handle);
  return std::move(out).take();
}

Result<Recovery> agreeOnRecovery(const std::vector<Blob>& items, const Roster& roster, size_t rank, size_t depth) {
  Recovery recovery;
  std::vector<RecoveryItem> decoded;
  for (size_t r = 0; r < items.size(); ++r) {
    if (items[r].empty()) {
      recovery.rankLeft = true;
      return recovery;
    }
    Result<RecoveryItem> item = decodeItem(items[r], roster);
    if (!item.ok()) return std::move(item).status().within(roster.rankName(r));
    decoded.push_back(std::move(item).value());
    recovery.firstCall = std::max(recovery.firstCall, decoded.back().callsCut);
  }
  if (decoded[rank].drivesRail) BPS_TRY(agreeOnRail(recovery, decoded, roster, rank, depth));
  return recovery;
}

}  // namespace bps
