#include "src/nccl/group_formation.h"

#include <utility>

#include "src/base/format.h"
#include "src/nccl/real_nccl.h"

namespace bps::nccl {
namespace {

// The communicators of a group. The destructor aborts those that no LocalGpuGroup has taken.
struct GroupComms {
  ncclComm_t localComm = nullptr;
  bpsComm_t ownersComm = nullptr;
  GroupComms() = default;
  GroupComms(const GroupComms&) = delete;
  GroupComms& operator=(const GroupComms&) = delete;
  ~GroupComms() {
    if (localComm != nullptr) (void)BPS_REAL(ncclCommAbort, localComm);
    if (ownersComm != nullptr) (void)bpsCommAbort(ownersComm);
  }
};

// Carries out the steps of the formation for one rank.
class Joiner {
 public:
  Joiner(LocalGpuGroups groups, int rank, const GroupFormation& steps)
      : groups_(std::move(groups)), rank_(rank), steps_(steps) {}

  // Returns why some rank failed in the step, or empty text if no rank failed.
  Result<std::string> shareOutcome(const Status& mine) {
    all_ = BPS_TRY(steps_.share(RankStatus::encode(mine, id_.internal)));
    return RankStatus::firstFailure(all_);
  }
  // Does all work that may fail on a single rank. NCCL's step comes afterwards, because the ranks
  // wait for each other in it.
  Status prepare() {
    const int part = groups_.owns(rank_) ? groups_.groupRankOf(rank_) : BPS_SPLIT_NOCOLOR;
    if (groups_.groupCount > 1) BPS_TRY(steps_.create(part, groups_.leaderOf(rank_), &comms_.ownersComm));
    device_ = BPS_TRY(steps_.openDevice());
    if (!steps_.splitNeedsId || groups_.sizeOf(rank_) == 1 || groups_.groupRankOf(rank_) != 0) return {};
    const ncclResult_t made = BPS_REAL(ncclGetUniqueId, &id_);
    if (made == ncclSuccess) return {};
    return failure(static_cast<Code>(made), "ncclGetUniqueId: {}", BPS_REAL(ncclGetErrorString, made));
  }
  // Finds out whether all ranks can add in rank order. Loads the kernel now, because no call may load code.
  Status shareRankOrder() {
    if (groups_.order.allowsAnyOrder || !groups_.noRankOrder.empty()) return {};
    Result<const cuda::SumKernel*> loaded = cuda::SumKernel::load(*device_);
    groups_.noRankOrder = BPS_TRY(shareOutcome(loaded.ok() ? Status() : loaded.error().clone()));
    groups_.order.addsInRankOrder = groups_.noRankOrder.empty();
    return {};
  }
  Status makeGroup(FormedGroup& formed) {
    const cuda::ScopedContext scope(*device_);
    ncclUniqueId id;
    RankStatus::readId(all_[firstOfGroup()], id.internal);
    BPS_TRY(steps_.split(groups_, id, &comms_.localComm));
    const LocalGpuGroup::Shape shape{groups_.groupRankOf(rank_), groups_.sizeOf(rank_), groups_.owners,
                                     groups_.groupCount == 1,    groups_.order,         groups_.placesOf(rank_),
                                     groups_.noRankOrder};
    formed.ownersComm = comms_.ownersComm;
    formed.group = BPS_TRY(LocalGpuGroup::create(shape, *device_, std::exchange(comms_.localComm, nullptr),
                                                 std::exchange(comms_.ownersComm, nullptr), steps_.shouldStop));
    return {};
  }

 private:
  size_t firstOfGroup() const {
    size_t first = 0;
    while (groups_.leaders[first] != groups_.leaderOf(rank_) || groups_.groupRanks[first] != 0) ++first;
    return first;
  }

  LocalGpuGroups groups_;
  const int rank_;
  const GroupFormation& steps_;
  cuda::Device* device_ = nullptr;
  ncclUniqueId id_{};
  GroupComms comms_;
  std::vector<Blob> all_;  // the records that the ranks have shared last
};

}  // namespace

Result<FormedGroup> joinLocalGpuGroup(std::span<const PeerInfo> peers, int rank, const GroupFormation& steps) {
  const LocalGpuGroups groups = formLocalGpuGroups(peers);
  FormedGroup formed;
  formed.attempted = groups.owners > 0;
  formed.why = groups.why;
  if (!formed.attempted) return formed;
  Joiner joiner(groups, rank, steps);
  formed.why = BPS_TRY(joiner.shareOutcome(joiner.prepare()));
  if (!formed.why.empty()) return formed;
  BPS_TRY(joiner.shareRankOrder());
  formed.why = BPS_TRY(joiner.shareOutcome(joiner.makeGroup(formed)));
  if (!formed.why.empty()) {
    formed.group = nullptr;
    formed.ownersComm = nullptr;
  }
  formed.partName = "in the part of ranks " + groups.ownersOf(groups.groupRankOf(rank));
  return formed;
}

}  // namespace bps::nccl
