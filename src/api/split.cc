// The C functions that make a communicator of some ranks of another one, the parent.
#include <algorithm>
#include <span>
#include <vector>

#include "src/api/api_guard.h"
#include "src/api/comm_handle.h"
#include "src/api/group/group.h"

namespace bps {
namespace {

// Summation servers need several machines, so a communicator on one machine uses no servers.
Result<std::unique_ptr<bpsComm>> createChild(const HandleReference& parent, const Communicator::Membership& membership,
                                             bool blocking) {
  Env env = parent->env();
  if (membership.onOneMachine) {
    env.servers.clear();
    env.requireServers = false;
  }
  std::unique_ptr<bpsComm> child = BPS_TRY(createHandle(env, membership, blocking));
  child->formsGpuGroups = parent.handle().formsGpuGroups;
  return child;
}

// Returns null if this rank is in no new communicator.
Result<std::unique_ptr<bpsComm>> createSplitComm(bpsComm_t comm, int color, int key, bool blocking) {
  const HandleReference parent = BPS_TRY(readyCommunicator(comm));
  const auto membership = BPS_TRY(parent->split(color, key));
  if (!membership) return std::unique_ptr<bpsComm>();
  return createChild(parent, *membership, blocking);
}

Status split(bpsComm_t comm, int color, int key, bpsComm_t* newComm, const bpsConfig_t* config) {
  if (newComm == nullptr) return badArgument("newcomm is NULL");
  *newComm = nullptr;
  if (color < 0 && color != BPS_SPLIT_NOCOLOR)
    return badArgument("color is {}, expected at least 0 or BPS_SPLIT_NOCOLOR", color);
  const HandleReference parent = BPS_TRY(readyCommunicator(comm));
  const bool blocking = BPS_TRY(blockingOf(config, comm->blocking));
  const auto make = [comm, color, key, blocking] { return createSplitComm(comm, color, key, blocking); };
  if (Group::forThisThread().open()) return Group::forThisThread().deferSplit(comm, newComm, make);
  std::unique_ptr<bpsComm> child = BPS_TRY(make());
  return child == nullptr ? Status() : startHandle(newComm, std::move(child));
}

// Checks the list of a shrink and returns it in ascending order.
Result<std::vector<uint32_t>> excludedRanks(const int* list, int count, const Communicator& parent) {
  const int nRanks = static_cast<int>(parent.nRanks()), own = static_cast<int>(parent.rank());
  if (list == nullptr) return badArgument("excludeRanksList is NULL");
  if (count < 1 || count >= nRanks)
    return badArgument("excludeRanksCount is {}, expected at least 1 and less than {}, the number of ranks", count,
                       nRanks);
  std::vector<uint32_t> excluded;
  for (const int rank : std::span(list, static_cast<size_t>(count))) {
    if (rank < 0 || rank >= nRanks)
      return badArgument("excludeRanksList contains {}, expected 0 to {}", rank, nRanks - 1);
    if (rank == own) return badArgument("excludeRanksList contains {}, the rank of the caller", rank);
    excluded.push_back(static_cast<uint32_t>(rank));
  }
  std::sort(excluded.begin(), excluded.end());
  const auto twice = std::adjacent_find(excluded.begin(), excluded.end());
  if (twice != excluded.end()) return badArgument("excludeRanksList contains {} twice", *twice);
  return excluded;
}

struct ShrinkArgs {
  const int* list;
  int count;
  int flags;
};

Status shrink(bpsComm_t comm, const ShrinkArgs& args, bpsComm_t* newComm, const bpsConfig_t* config) {
  if (newComm == nullptr) return badArgument("newcomm is NULL");
  *newComm = nullptr;
  if (args.flags != BPS_SHRINK_DEFAULT && args.flags != BPS_SHRINK_ABORT)
    return badArgument("shrinkFlags is {}, expected BPS_SHRINK_DEFAULT or BPS_SHRINK_ABORT", args.flags);
  const HandleReference parent = BPS_TRY(readyCommunicator(comm));
  if (parent->finalized()) return {Code::kInvalidUsage, "comm has been finalized"};
  const std::vector<uint32_t> excluded = BPS_TRY(excludedRanks(args.list, args.count, *parent));
  const bool blocking = BPS_TRY(blockingOf(config, comm->blocking));
  if (args.flags == BPS_SHRINK_ABORT) {
    abortCalls(*comm);
    parent->waitForBuffersIdle();
  } else if (Status failed = parent->failure(); !failed.ok() && !comm->revoked) {
    return std::move(failed).within("comm has failed, and BPS_SHRINK_ABORT is not set");
  }
  return startHandle(newComm, BPS_TRY(createChild(parent, parent->shrink(excluded), blocking)));
}

}  // namespace
}  // namespace bps

using namespace bps;

bpsResult_t bpsCommSplit(bpsComm_t comm, int color, int key, bpsComm_t* newcomm, bpsConfig_t* config) {
  return apiGuard(__func__, [&] { return split(comm, color, key, newcomm, config); });
}

// NOLINTNEXTLINE(readability-function-size): the signature is NCCL's
bpsResult_t bpsCommShrink(bpsComm_t comm, int* excludeRanksList, int excludeRanksCount, bpsComm_t* newcomm,
                          bpsConfig_t* config, int shrinkFlags) {
  return apiGuard(__func__, [&] {
    return shrink(comm, {excludeRanksList, excludeRanksCount, shrinkFlags}, newcomm, config);
  });
}
