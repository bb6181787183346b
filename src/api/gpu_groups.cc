#include "src/api/gpu_groups.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <vector>

#include "src/api/api_guard.h"
#include "src/nccl/backoff.h"
#include "src/nccl/local_gpu_groups.h"
#include "src/nccl/real_nccl.h"

namespace bps {
namespace {

using nccl::LocalGpuGroups;
using nccl::PeerInfo;

// Of this process, and no other one on its machine, whatever its process numbers mean.
uint64_t processTag() {
  static const auto started = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return started ^ (static_cast<uint64_t>(::getpid()) << 40);
}

const std::vector<uint32_t>& localRanks(const bpsComm& handle) {
  const Roster& roster = handle.communicator->roster();
  return roster.machines[roster.ranks[handle.rank].machine].ranks;
}

// What keeps this rank from a team; empty: nothing.
std::string whyNoGpuGroup(const bpsComm& handle) {
  const std::optional<int> device = handle.communicator->device();
  if (!device) return "it has no CUDA device";
  Result<const cuda::Api*> found = cuda::driver();
  if (!found.ok()) return std::string(found.error().message());
  const cuda::Api& driver = *std::move(found).value();
  if (!cuda::Device::hasActiveContext(driver, *device))
    return "its program had not used the CUDA device when the communicator started";
  if (localRanks(handle).size() > 1 && nccl::findNccl() == nullptr)
    return "no NCCL library was found (BPS_NCCL_LIB_PATH names one)";
  Result<cuda::Device*> opened = cuda::Device::open(driver, *device);
  return opened.ok() ? nccl::LocalGpuGroup::unsupportedReason(*std::move(opened).value())
                     : std::string(opened.error().message());
}

Result<LocalGpuGroups> negotiateGpuGroups(const bpsComm& handle) {
  Communicator& all = *handle.communicator;
  WireWriter writer;
  PeerInfo::detect(all.device().value_or(0), all.env(), whyNoGpuGroup(handle)).put(writer);
  writer.put(processTag());
  std::vector<PeerInfo> peers(handle.nRanks);
  std::map<std::pair<uint64_t, uint64_t>, size_t> processes;  // of a machine
  const std::vector<Blob> words = BPS_TRY(all.allGather(writer.bytes()));
  for (size_t rank = 0; rank < words.size(); ++rank) {
    WireReader reader(words[rank]);
    peers[rank].get(reader);
    const auto process = reader.get<uint64_t>();
    BPS_TRY(reader.finish("what a rank shows of its GPU"));
    const auto [first, isNew] = processes.emplace(std::pair(peers[rank].machine, process), rank);
    if (isNew) continue;
    peers[rank].gpuGroup = 0;
    peers[rank].why = fmt::format("it shares a process with rank {}", first->second);
  }
  return nccl::formLocalGpuGroups(peers);
}

// Whether something worked on each rank, and what it shows the others.
struct Outcome {
  Status status;
  ncclUniqueId id{};

  Blob bytes() const {
    return WireWriter()
        .put(static_cast<uint32_t>(status.code()))
        .put(status.message())
        .put(std::span(reinterpret_cast<const uint8_t*>(id.internal), sizeof id.internal))
        .bytes();
  }
};

struct Outcomes {
  std::string failed;  // the first rank that did, and why; one that only waited for others in vain if there is no other
  std::vector<ncclUniqueId> ids;
};

Result<Outcomes> allGatherOutcomes(const bpsComm& handle, const Outcome& mine) {
  Outcomes all;
  bool onlyTimeouts = true;
  const std::vector<Blob> words = BPS_TRY(handle.communicator->allGather(mine.bytes()));
  for (size_t rank = 0; rank < words.size(); ++rank) {
    WireReader reader(words[rank]);
    const auto code = static_cast<Code>(reader.get<uint32_t>());
    const std::string why = reader.getString();
    const std::string id = reader.getString();
    BPS_TRY(reader.finish("how a rank fared"));
    const bool says = all.failed.empty() || (onlyTimeouts && code != Code::kTimeout);
    if (code != Code::kOk && says) all.failed = fmt::format("rank {}: {}", rank, why);
    onlyTimeouts = onlyTimeouts && (code == Code::kOk || code == Code::kTimeout);
    std::memcpy(all.ids.emplace_back().internal, id.data(), std::min(id.size(), sizeof(ncclUniqueId)));
  }
  return all;
}

Status statusOf(ncclResult_t result, const char* name) {
  if (result == ncclSuccess) return {};
  return failure(static_cast<Code>(result), "{}: {}", name, BPS_REAL(ncclGetErrorString, result));
}

// What a team is made of; aborted again unless it is.
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

// The communicator of the owners of a part, in the order of their teams. All ranks have to come to the split.
Status joinOwnersComm(const bpsComm& handle, const LocalGpuGroups& gpuGroups, GroupComms& comms) {
  const int rank = static_cast<int>(handle.rank), groupRank = gpuGroups.groupRankOf(rank);
  const auto membership = BPS_TRY(handle.communicator->split(
      groupRank < gpuGroups.owners ? groupRank : BPS_SPLIT_NOCOLOR, gpuGroups.leaderOf(rank)));
  if (!membership) return {};
  auto ownersComm = std::make_unique<bpsComm>();
  ownersComm->communicator = BPS_TRY(Communicator::create(handle.communicator->env(), *membership));
  ownersComm->rank = membership->rank;
  ownersComm->nRanks = membership->nRanks;
  ownersComm->blocking = false;
  ownersComm->isGpuGroupComm = true;
  if (Status started = startHandle(&comms.ownersComm, std::move(ownersComm)); started.code() != Code::kInProgress)
    return started;
  for (nccl::Backoff backoff; comms.ownersComm->state.load(std::memory_order_acquire) == bpsComm::State::kStarting;
       backoff.pause())
    BPS_TRY(handle.communicator->failure());
  return comms.ownersComm->error.get();
}

std::string groupRankNames(const bpsComm& handle, const LocalGpuGroups& gpuGroups) {
  std::string names;
  for (size_t rank = 0; rank < handle.nRanks; ++rank)
    if (gpuGroups.leaders[rank] == gpuGroups.leaderOf(static_cast<int>(handle.rank)))
      names += (names.empty() ? "" : ", ") + handle.communicator->roster().rankName(rank);
  return names;
}

// NCCL waits for the others as long as it takes, unless it is asked not to; and does not say who is missing.
Status joinLocalComm(const bpsComm& handle, const LocalGpuGroups& gpuGroups, const ncclUniqueId& id,
                     GroupComms& comms) {
  const int rank = static_cast<int>(handle.rank);
  const Deadline deadline = handle.communicator->timeoutDeadline();
  bpsConfig_t config = BPS_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t state = BPS_REAL(ncclCommInitRankConfig, &comms.localComm, gpuGroups.sizeOf(rank), id,
                                gpuGroups.groupRankOf(rank), reinterpret_cast<ncclConfig_t*>(&config));
  for (nccl::Backoff backoff; state == ncclInProgress;) {
    BPS_TRY(handle.communicator->failure());
    if (deadline.passed())
      return failure(Code::kTimeout, "NCCL has not joined {} within BPS_TIMEOUT", groupRankNames(handle, gpuGroups));
    backoff.pause();
    if (const ncclResult_t asked = BPS_REAL(ncclCommGetAsyncError, comms.localComm, &state); asked != ncclSuccess)
      state = asked;
  }
  return statusOf(state, "ncclCommInitRankConfig");
}

// The first rank of each team makes the id by which NCCL joins it.
Status createNcclId(const LocalGpuGroups& gpuGroups, int rank, ncclUniqueId& id) {
  if (gpuGroups.sizeOf(rank) == 1 || gpuGroups.groupRankOf(rank) != 0) return {};
  return statusOf(BPS_REAL(ncclGetUniqueId, &id), "ncclGetUniqueId");
}

const ncclUniqueId& ncclIdOf(const LocalGpuGroups& gpuGroups, int rank, const Outcomes& met) {
  size_t first = 0;  // of its team
  while (gpuGroups.leaders[first] != gpuGroups.leaderOf(rank) || gpuGroups.groupRanks[first] != 0) ++first;
  return met.ids[first];
}

Result<std::unique_ptr<nccl::LocalGpuGroup>> createGpuGroup(const bpsComm& handle, const LocalGpuGroups& gpuGroups,
                                                            cuda::Device& device, GroupComms& comms) {
  const int rank = static_cast<int>(handle.rank);
  const nccl::LocalGpuGroup::Shape shape{gpuGroups.groupRankOf(rank), gpuGroups.sizeOf(rank), gpuGroups.owners,
                                         gpuGroups.allowsAnyOrder, gpuGroups.groupCount == 1};
  return nccl::LocalGpuGroup::create(shape, device, std::exchange(comms.localComm, nullptr),
                                     std::exchange(comms.ownersComm, nullptr),
                                     [&all = *handle.communicator] { return !all.failure().ok(); });
}

// The text: why not. A rank that fails in a step still comes to the end of it, where all hear of it: the others would
// wait for it.
Result<std::string> joinGpuGroup(bpsComm& handle, const LocalGpuGroups& gpuGroups) {
  const int rank = static_cast<int>(handle.rank);
  GroupComms comms;
  Outcome mine;
  if (gpuGroups.groupCount > 1) mine.status = joinOwnersComm(handle, gpuGroups, comms);
  if (mine.status.ok()) mine.status = createNcclId(gpuGroups, rank, mine.id);
  const Outcomes met = BPS_TRY(allGatherOutcomes(handle, mine));
  if (!met.failed.empty()) return met.failed;

  const bpsComm* ownersComm = comms.ownersComm;
  std::unique_ptr<nccl::LocalGpuGroup> gpuGroup;
  const auto make = [&]() -> Status {
    const cuda::Api* driver = BPS_TRY(cuda::driver());
    cuda::Device* device = BPS_TRY(cuda::Device::open(*driver, *handle.communicator->device()));
    const cuda::ScopedContext scope(*device);
    if (gpuGroups.sizeOf(rank) > 1) BPS_TRY(joinLocalComm(handle, gpuGroups, ncclIdOf(gpuGroups, rank, met), comms));
    gpuGroup = BPS_TRY(createGpuGroup(handle, gpuGroups, *device, comms));
    return {};
  };
  mine.status = make();
  const Outcomes made = BPS_TRY(allGatherOutcomes(handle, mine));
  if (!made.failed.empty()) return made.failed;
  handle.gpuGroup = std::move(gpuGroup);
  if (ownersComm != nullptr)
    ownersComm->communicator->linkToParent(*handle.communicator,
                                           "in the part of ranks " + gpuGroups.ownersOf(gpuGroups.groupRankOf(rank)));
  return std::string();
}

// How long a better reason may take to come.
constexpr std::chrono::milliseconds kRootCauseTimeout(500);

// What has failed among those who share parts with this rank, all ranks hear. NCCL may tell only that another has ended
// the communicator, and why he did the hub has told already: who asks is kept until that has come, or goes without.
void failCommunicator(const bpsComm& handle, ncclResult_t result) {
  const Deadline deadline = Deadline::in(kRootCauseTimeout);
  for (nccl::Backoff backoff; handle.communicator->failure().ok(); backoff.pause()) {
    if (deadline.passed())
      return handle.communicator->fail(
          {static_cast<Code>(result), "on device memory, inside the machine: " + handle.gpuGroup->lastError()});
  }
}

// Some machine has several ranks.
bool hasSharedMachine(const Roster& roster) {
  return std::any_of(roster.machines.begin(), roster.machines.end(),
                     [](const Machine& machine) { return machine.ranks.size() > 1; });
}

}  // namespace

Status setUpGpuGroup(bpsComm& handle) {
  if (handle.isGpuGroupComm || nccl::gpuGroupsLeftToInterposer() || !hasSharedMachine(handle.communicator->roster()))
    return {};
  const LocalGpuGroups gpuGroups = BPS_TRY(negotiateGpuGroups(handle));
  const std::string why = gpuGroups.owners > 0 ? BPS_TRY(joinGpuGroup(handle, gpuGroups)) : gpuGroups.why;
  if (handle.rank != 0 || !handle.communicator->device()) return {};
  if (handle.gpuGroup != nullptr)
    logInfo(Subsystem::kInit, "device memory inside machines: {} ({})", handle.gpuGroup->describe(),
            nccl::findNccl()->path);
  else if (gpuGroups.owners > 0)
    logWarn(Subsystem::kInit, "device memory inside machines: by bps, in host memory ({})", why);
  else logInfo(Subsystem::kInit, "device memory inside machines: by bps, in host memory ({})", why);
  return {};
}

Result<bool> issueToGpuGroup(const bpsComm& handle, const AllReduceCall& call) {
  nccl::LocalGpuGroup* gpuGroup = handle.gpuGroup.get();
  if (gpuGroup == nullptr) return false;
  const nccl::Call ncclCall{call.send,
                            call.recv,
                            call.count,
                            static_cast<ncclDataType_t>(call.type),
                            static_cast<ncclRedOp_t>(call.op),
                            nullptr,
                            static_cast<cudaStream_t>(const_cast<void*>(call.handle)),
                            {}};
  if (!gpuGroup->supports(ncclCall) || !BPS_TRY(handle.communicator->isOnDevice(call))) return false;
  BPS_TRY(handle.communicator->submitCheckOnly(call));
  const ncclResult_t issued = gpuGroup->issue(ncclCall);
  if (issued == ncclSuccess) return true;
  // The others are in the call, and would wait for this rank's part of it or pair it with that of another call.
  failCommunicator(handle, issued);
  return handle.communicator->failure();
}

Status checkFailure(const bpsComm& handle) {
  nccl::LocalGpuGroup* gpuGroup = gpuGroupOf(handle);
  if (gpuGroup == nullptr || !handle.communicator->failure().ok()) return handle.communicator->failure();
  if (const ncclResult_t groupError = gpuGroup->error(); groupError != ncclSuccess)
    failCommunicator(handle, groupError);
  return handle.communicator->failure();
}

// What NCCL still has to do ends only if everybody is there.
Status finalizeGpuGroup(const bpsComm& handle) {
  nccl::LocalGpuGroup* gpuGroup = gpuGroupOf(handle);
  if (gpuGroup == nullptr) return {};
  Deadline peerDeadline = Deadline::never();
  const ncclResult_t ended = gpuGroup->finalize([&handle, &peerDeadline](bool underWay) {
    if (!underWay) handle.communicator->failIfPeerLeft(peerDeadline);
    return nccl::toNcclResult(static_cast<bpsResult_t>(checkFailure(handle).code()));
  });
  if (ended != ncclSuccess && handle.communicator->failure().ok()) failCommunicator(handle, ended);
  return handle.communicator->failure();
}

}  // namespace bps
