#include "src/api/teaming.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <map>
#include <vector>

#include "src/api/border.h"
#include "src/nccl/patience.h"
#include "src/nccl/real.h"
#include "src/nccl/teams.h"

namespace bps {
namespace {

using nccl::Member;
using nccl::Teams;

// Of this process, and no other one on its machine, whatever its process numbers mean.
uint64_t processNumber() {
  static const auto started = static_cast<uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  return started ^ (static_cast<uint64_t>(::getpid()) << 40);
}

const std::vector<uint32_t>& localRanks(const bpsComm& handle) {
  const Roster& roster = handle.communicator->roster();
  return roster.machines[roster.ranks[handle.rank].machine].ranks;
}

// What keeps this rank from a team; empty: nothing.
std::string obstacle(const bpsComm& handle) {
  const std::optional<int> device = handle.communicator->device();
  if (!device) return "it has no CUDA device";
  Result<const cuda::Api*> found = cuda::driver();
  if (!found.ok()) return std::string(found.error().message());
  const cuda::Api& driver = *std::move(found).value();
  if (!cuda::Device::inUse(driver, *device))
    return "its program had not used the CUDA device when the communicator started";
  if (localRanks(handle).size() > 1 && nccl::findNccl() == nullptr)
    return "no NCCL library was found (BPS_NCCL_LIB_PATH names one)";
  Result<cuda::Device*> opened = cuda::Device::open(driver, *device);
  return opened.ok() ? nccl::Team::obstacleOn(*std::move(opened).value()) : std::string(opened.error().message());
}

Result<Teams> settleTeams(const bpsComm& handle) {
  Communicator& all = *handle.communicator;
  WireWriter writer;
  Member::of(all.device().value_or(0), all.env(), obstacle(handle)).put(writer);
  writer.put(processNumber());
  std::vector<Member> members(handle.nRanks);
  std::map<std::pair<uint64_t, uint64_t>, size_t> processes;  // of a machine
  const std::vector<Blob> words = BPS_TRY(all.share(writer.bytes()));
  for (size_t rank = 0; rank < words.size(); ++rank) {
    WireReader reader(words[rank]);
    members[rank].get(reader);
    const auto process = reader.get<uint64_t>();
    BPS_TRY(reader.finish("what a rank shows of its GPU"));
    const auto [first, isNew] = processes.emplace(std::pair(members[rank].machine, process), rank);
    if (isNew) continue;
    members[rank].team = 0;
    members[rank].why = fmt::format("it shares a process with rank {}", first->second);
  }
  return nccl::teamsOf(members);
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

Result<Outcomes> shareOutcomes(const bpsComm& handle, const Outcome& mine) {
  Outcomes all;
  bool waitedOnly = true;
  const std::vector<Blob> words = BPS_TRY(handle.communicator->share(mine.bytes()));
  for (size_t rank = 0; rank < words.size(); ++rank) {
    WireReader reader(words[rank]);
    const auto code = static_cast<Code>(reader.get<uint32_t>());
    const std::string why = reader.getString();
    const std::string id = reader.getString();
    BPS_TRY(reader.finish("how a rank fared"));
    const bool says = all.failed.empty() || (waitedOnly && code != Code::kTimeout);
    if (code != Code::kOk && says) all.failed = fmt::format("rank {}: {}", rank, why);
    waitedOnly = waitedOnly && (code == Code::kOk || code == Code::kTimeout);
    std::memcpy(all.ids.emplace_back().internal, id.data(), std::min(id.size(), sizeof(ncclUniqueId)));
  }
  return all;
}

Status statusOf(ncclResult_t result, const char* name) {
  if (result == ncclSuccess) return {};
  return failure(static_cast<Code>(result), "{}: {}", name, BPS_REAL(ncclGetErrorString, result));
}

// What a team is made of; aborted again unless it is.
struct Parts {
  ncclComm_t inside = nullptr;
  bpsComm_t across = nullptr;
  Parts() = default;
  Parts(const Parts&) = delete;
  Parts& operator=(const Parts&) = delete;
  ~Parts() {
    if (inside != nullptr) (void)BPS_REAL(ncclCommAbort, inside);
    if (across != nullptr) (void)bpsCommAbort(across);
  }
};

// The communicator of the owners of a part, in the order of their teams. All ranks have to come to the split.
Status joinAcross(const bpsComm& handle, const Teams& teams, Parts& parts) {
  const int rank = static_cast<int>(handle.rank), place = teams.placeOf(rank);
  const auto membership =
      BPS_TRY(handle.communicator->split(place < teams.owners ? place : BPS_SPLIT_NOCOLOR, teams.leadOf(rank)));
  if (!membership) return {};
  auto across = std::make_unique<bpsComm>();
  across->communicator = BPS_TRY(Communicator::create(handle.communicator->env(), *membership));
  across->rank = membership->rank;
  across->nRanks = membership->nRanks;
  across->blocking = false;
  across->ofTeam = true;
  if (Status started = startHandle(&parts.across, std::move(across)); started.code() != Code::kInProgress)
    return started;
  for (nccl::Patience patience; parts.across->state.load(std::memory_order_acquire) == bpsComm::State::kStarting;
       patience.pause())
    BPS_TRY(handle.communicator->failure());
  return parts.across->error.get();
}

std::string membersOf(const bpsComm& handle, const Teams& teams) {
  std::string names;
  for (size_t rank = 0; rank < handle.nRanks; ++rank)
    if (teams.leads[rank] == teams.leadOf(static_cast<int>(handle.rank)))
      names += (names.empty() ? "" : ", ") + handle.communicator->roster().rankName(rank);
  return names;
}

// NCCL waits for the others as long as it takes, unless it is asked not to; and does not say who is missing.
Status joinInside(const bpsComm& handle, const Teams& teams, const ncclUniqueId& id, Parts& parts) {
  const int rank = static_cast<int>(handle.rank);
  const Deadline deadline = handle.communicator->patience();
  bpsConfig_t config = BPS_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclResult_t state = BPS_REAL(ncclCommInitRankConfig, &parts.inside, teams.sizeOf(rank), id, teams.placeOf(rank),
                                reinterpret_cast<ncclConfig_t*>(&config));
  for (nccl::Patience patience; state == ncclInProgress;) {
    BPS_TRY(handle.communicator->failure());
    if (deadline.passed())
      return failure(Code::kTimeout, "NCCL has not joined {} within BPS_TIMEOUT", membersOf(handle, teams));
    patience.pause();
    if (const ncclResult_t asked = BPS_REAL(ncclCommGetAsyncError, parts.inside, &state); asked != ncclSuccess)
      state = asked;
  }
  return statusOf(state, "ncclCommInitRankConfig");
}

// The first rank of each team makes the id by which NCCL joins it.
Status makeId(const Teams& teams, int rank, ncclUniqueId& id) {
  if (teams.sizeOf(rank) == 1 || teams.placeOf(rank) != 0) return {};
  return statusOf(BPS_REAL(ncclGetUniqueId, &id), "ncclGetUniqueId");
}

const ncclUniqueId& idOf(const Teams& teams, int rank, const Outcomes& met) {
  size_t first = 0;  // of its team
  while (teams.leads[first] != teams.leadOf(rank) || teams.places[first] != 0) ++first;
  return met.ids[first];
}

Result<std::unique_ptr<nccl::Team>> makeTeam(const bpsComm& handle, const Teams& teams, cuda::Device& device,
                                             Parts& parts) {
  const int rank = static_cast<int>(handle.rank);
  const nccl::Team::Shape shape{teams.placeOf(rank), teams.sizeOf(rank), teams.owners, teams.anyOrder,
                                teams.number == 1};
  return nccl::Team::create(shape, device, std::exchange(parts.inside, nullptr), std::exchange(parts.across, nullptr),
                            [&all = *handle.communicator] { return !all.failure().ok(); });
}

// The text: why not. A rank that fails in a step still comes to the end of it, where all hear of it: the others would
// wait for it.
Result<std::string> join(bpsComm& handle, const Teams& teams) {
  const int rank = static_cast<int>(handle.rank);
  Parts parts;
  Outcome mine;
  if (teams.number > 1) mine.status = joinAcross(handle, teams, parts);
  if (mine.status.ok()) mine.status = makeId(teams, rank, mine.id);
  const Outcomes met = BPS_TRY(shareOutcomes(handle, mine));
  if (!met.failed.empty()) return met.failed;

  const bpsComm* across = parts.across;
  std::unique_ptr<nccl::Team> team;
  const auto make = [&]() -> Status {
    const cuda::Api* driver = BPS_TRY(cuda::driver());
    cuda::Device* device = BPS_TRY(cuda::Device::open(*driver, *handle.communicator->device()));
    const cuda::Scope scope(*device);
    if (teams.sizeOf(rank) > 1) BPS_TRY(joinInside(handle, teams, idOf(teams, rank, met), parts));
    team = BPS_TRY(makeTeam(handle, teams, *device, parts));
    return {};
  };
  mine.status = make();
  const Outcomes made = BPS_TRY(shareOutcomes(handle, mine));
  if (!made.failed.empty()) return made.failed;
  handle.team = std::move(team);
  if (across != nullptr)
    across->communicator->becomePart(*handle.communicator,
                                     "in the part of ranks " + teams.ownersOf(teams.placeOf(rank)));
  return std::string();
}

// How long a better reason may take to come.
constexpr std::chrono::milliseconds kBetterReason(500);

// What has failed among those who share parts with this rank, all ranks hear. NCCL may tell only that another has ended
// the communicator, and why he did the hub has told already: who asks is kept until that has come, or goes without.
void fail(const bpsComm& handle, ncclResult_t result) {
  const Deadline deadline = Deadline::in(kBetterReason);
  for (nccl::Patience patience; handle.communicator->failure().ok(); patience.pause()) {
    if (deadline.passed())
      return handle.communicator->fail(
          {static_cast<Code>(result), "on device memory, inside the machine: " + handle.team->lastError()});
  }
}

// Some machine has several ranks.
bool sharesMachines(const Roster& roster) {
  return std::any_of(roster.machines.begin(), roster.machines.end(),
                     [](const Machine& machine) { return machine.ranks.size() > 1; });
}

}  // namespace

Status teamUp(bpsComm& handle) {
  if (handle.ofTeam || nccl::teamsLeftToCaller() || !sharesMachines(handle.communicator->roster())) return {};
  const Teams teams = BPS_TRY(settleTeams(handle));
  const std::string why = teams.owners > 0 ? BPS_TRY(join(handle, teams)) : teams.why;
  if (handle.rank != 0 || !handle.communicator->device()) return {};
  if (handle.team != nullptr)
    logInfo(Subsystem::kInit, "device memory inside machines: {} ({})", handle.team->inWords(), nccl::findNccl()->path);
  else if (teams.owners > 0)
    logWarn(Subsystem::kInit, "device memory inside machines: by bps, in host memory ({})", why);
  else logInfo(Subsystem::kInit, "device memory inside machines: by bps, in host memory ({})", why);
  return {};
}

Result<bool> issueByTeam(const bpsComm& handle, const AllReduceCall& call) {
  nccl::Team* team = handle.team.get();
  if (team == nullptr) return false;
  const nccl::Call theirs{call.send,
                          call.recv,
                          call.count,
                          static_cast<ncclDataType_t>(call.type),
                          static_cast<ncclRedOp_t>(call.op),
                          nullptr,
                          static_cast<cudaStream_t>(const_cast<void*>(call.handle)),
                          {}};
  if (!team->takes(theirs) || !BPS_TRY(handle.communicator->onDevice(call))) return false;
  BPS_TRY(handle.communicator->announce(call));
  const ncclResult_t issued = team->issue(theirs);
  if (issued == ncclSuccess) return true;
  // The others are in the call, and would wait for this rank's part of it or pair it with that of another call.
  fail(handle, issued);
  return handle.communicator->failure();
}

Status failureOf(const bpsComm& handle) {
  nccl::Team* team = teamOf(handle);
  if (team == nullptr || !handle.communicator->failure().ok()) return handle.communicator->failure();
  if (const ncclResult_t ofTeam = team->error(); ofTeam != ncclSuccess) fail(handle, ofTeam);
  return handle.communicator->failure();
}

// What NCCL still has to do ends only if everybody is there.
Status finalizeTeam(const bpsComm& handle) {
  nccl::Team* team = teamOf(handle);
  if (team == nullptr) return {};
  Deadline patience = Deadline::never();
  const ncclResult_t ended = team->finalize([&handle, &patience](bool underWay) {
    if (!underWay) handle.communicator->endIfLeftBehind(patience);
    return nccl::ncclOf(static_cast<bpsResult_t>(failureOf(handle).code()));
  });
  if (ended != ncclSuccess && handle.communicator->failure().ok()) fail(handle, ended);
  return handle.communicator->failure();
}

}  // namespace bps
