#include "src/api/group/gpu_groups.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "src/api/api_guard.h"
#include "src/nccl/backoff.h"
#include "src/nccl/group_formation.h"
#include "src/nccl/real_nccl.h"

namespace bps {
namespace {

using nccl::LocalGpuGroups;
using nccl::PeerInfo;

// Identifies this process on its machine, even if processes in different PID namespaces have the
// same process id.
uint64_t processTag() {
  static const auto started = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return started ^ (static_cast<uint64_t>(::getpid()) << 40);
}

const std::vector<uint32_t>& localRanks(const bpsComm& handle) {
  const Roster& roster = handle.communicator->roster();
  return roster.machines[roster.ranks[handle.rank].machine].ranks;
}

// Returns why this rank can be in no local GPU group, or empty text if it can.
std::string noGpuGroupReason(const bpsComm& handle) {
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
  return opened.ok() ? std::move(opened).value()->checkStreamMemOps().message() : opened.error().message();
}

Result<std::vector<PeerInfo>> sharePeers(const bpsComm& handle) {
  Communicator& all = *handle.communicator;
  WireWriter writer;
  PeerInfo::detect(all.device().value_or(0), all.env(), noGpuGroupReason(handle)).put(writer);
  writer.put(processTag());
  std::vector<PeerInfo> peers(handle.nRanks);
  std::map<std::pair<uint64_t, uint64_t>, size_t> firstRanks;  // the lowest rank of each machine and process
  const std::vector<Blob> records = BPS_TRY(all.allGather(writer.bytes()));
  for (size_t rank = 0; rank < records.size(); ++rank) {
    WireReader reader(records[rank]);
    peers[rank].get(reader);
    const auto process = reader.get<uint64_t>();
    BPS_TRY(reader.finish("the GPU capabilities of a rank"));
    const auto [first, isNew] = firstRanks.emplace(std::pair(peers[rank].machine, process), rank);
    if (isNew) continue;
    peers[rank].gpuGroup = 0;
    peers[rank].why = fmt::format("it shares a process with rank {}", first->second);
  }
  return peers;
}

// Makes the communicator of the ranks that own the same part of every call. All ranks take part in
// the split.
Status createOwnersComm(const bpsComm& handle, int part, int leader, bpsComm_t* made) {
  const auto membership = BPS_TRY(handle.communicator->split(part, leader));
  if (!membership) return {};
  auto ownersComm = std::make_unique<bpsComm>();
  ownersComm->communicator = BPS_TRY(Communicator::create(handle.communicator->env(), *membership));
  ownersComm->rank = membership->rank;
  ownersComm->nRanks = membership->nRanks;
  ownersComm->blocking = false;
  ownersComm->formsGpuGroups = false;
  if (Status started = startHandle(made, std::move(ownersComm)); started.code() != Code::kInProgress) return started;
  for (nccl::Backoff backoff; (*made)->state.load(std::memory_order_acquire) == bpsComm::State::kStarting;
       backoff.pause())
    BPS_TRY(handle.communicator->failure());
  return (*made)->error.get();
}

std::string groupRankNames(const bpsComm& handle, const LocalGpuGroups& groups) {
  std::string names;
  for (size_t rank = 0; rank < handle.nRanks; ++rank)
    if (groups.leaders[rank] == groups.leaderOf(static_cast<int>(handle.rank)))
      names += (names.empty() ? "" : ", ") + handle.communicator->roster().rankName(rank);
  return names;
}

// Starts NCCL's communicator without blocking. A blocking start of NCCL waits without limit and
// does not say which ranks are missing.
Status joinLocalComm(const bpsComm& handle, const LocalGpuGroups& groups, const ncclUniqueId& id, ncclComm_t* made) {
  const int rank = static_cast<int>(handle.rank);
  if (groups.sizeOf(rank) == 1) return {};
  const Deadline deadline = handle.communicator->timeoutDeadline();
  bpsConfig_t config = BPS_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t state = BPS_REAL(ncclCommInitRankConfig, made, groups.sizeOf(rank), id, groups.groupRankOf(rank),
                                reinterpret_cast<ncclConfig_t*>(&config));
  for (nccl::Backoff backoff; state == ncclInProgress;) {
    BPS_TRY(handle.communicator->failure());
    if (deadline.passed())
      return failure(Code::kTimeout, "NCCL has not joined {} within BPS_TIMEOUT", groupRankNames(handle, groups));
    backoff.pause();
    if (const ncclResult_t asked = BPS_REAL(ncclCommGetAsyncError, *made, &state); asked != ncclSuccess) state = asked;
  }
  if (state == ncclSuccess) return {};
  return failure(static_cast<Code>(state), "ncclCommInitRankConfig: {}", BPS_REAL(ncclGetErrorString, state));
}

nccl::GroupFormation formationSteps(const bpsComm& handle) {
  nccl::GroupFormation steps;
  steps.share = [&handle](const Blob& mine) { return handle.communicator->allGather(mine); };
  steps.create = [&handle](int part, int leader, bpsComm_t* made) {
    return createOwnersComm(handle, part, leader, made);
  };
  steps.split = [&handle](const LocalGpuGroups& groups, const ncclUniqueId& id, ncclComm_t* made) {
    return joinLocalComm(handle, groups, id, made);
  };
  steps.splitNeedsId = true;
  steps.openDevice = [&handle]() -> Result<cuda::Device*> {
    return cuda::Device::open(*BPS_TRY(cuda::driver()), *handle.communicator->device());
  };
  steps.shouldStop = [&all = *handle.communicator] { return !all.failure().ok(); };
  return steps;
}

// How long failCommunicator() waits for the root cause of a failure.
constexpr std::chrono::milliseconds kRootCauseTimeout(500);

// Ends the communicator on all ranks. NCCL may report only that another rank has aborted, while the
// hub knows why. This function therefore waits for the hub's reason first. failCommunicator()
// reports NCCL's error only if no reason arrives.
void failCommunicator(const bpsComm& handle, ncclResult_t result) {
  const Deadline deadline = Deadline::in(kRootCauseTimeout);
  for (nccl::Backoff backoff; handle.communicator->failure().ok(); backoff.pause()) {
    if (deadline.passed())
      return handle.communicator->fail(
          {static_cast<Code>(result), "on device memory, inside the machine: " + handle.gpuGroup->lastError()});
  }
}

bool hasSharedMachine(const Roster& roster) {
  return std::any_of(roster.machines.begin(), roster.machines.end(),
                     [](const Machine& machine) { return machine.ranks.size() > 1; });
}

}  // namespace

Status setUpGpuGroup(bpsComm& handle) {
  if (!handle.formsGpuGroups || !hasSharedMachine(handle.communicator->roster())) return {};
  const std::vector<PeerInfo> peers = BPS_TRY(sharePeers(handle));
  nccl::FormedGroup formed =
      BPS_TRY(nccl::joinLocalGpuGroup(peers, static_cast<int>(handle.rank), formationSteps(handle)));
  handle.gpuGroup = std::move(formed.group);
  if (formed.ownersComm != nullptr)
    formed.ownersComm->communicator->linkToParent(*handle.communicator, formed.partName);
  if (handle.rank != 0 || !handle.communicator->device()) return {};
  if (handle.gpuGroup != nullptr)
    logInfo(Subsystem::kInit, "device memory inside machines: {} ({})", handle.gpuGroup->describe(),
            nccl::findNccl()->path);
  else if (formed.attempted)
    logWarn(Subsystem::kInit, "device memory inside machines: by bps, in host memory ({})", formed.why);
  else logInfo(Subsystem::kInit, "device memory inside machines: by bps, in host memory ({})", formed.why);
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
  // The other ranks wait for this rank's part of the call, or would mistake this rank's next call
  // for it.
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

// Also checks whether a peer has left, because NCCL's calls never end if a peer is missing.
Status finalizeGpuGroup(const bpsComm& handle) {
  nccl::LocalGpuGroup* gpuGroup = gpuGroupOf(handle);
  if (gpuGroup == nullptr) return {};
  Deadline peerDeadline = Deadline::never();
  const ncclResult_t ended = gpuGroup->finalize([&handle, &peerDeadline](bool inFlight) {
    if (!inFlight) handle.communicator->failIfPeerLeft(peerDeadline);
    return nccl::toNcclResult(static_cast<bpsResult_t>(checkFailure(handle).code()));
  });
  if (ended != ncclSuccess && handle.communicator->failure().ok()) failCommunicator(handle, ended);
  return handle.communicator->failure();
}

}  // namespace bps
