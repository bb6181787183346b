// The C functions that start communicators.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "src/api/api_guard.h"
#include "src/api/comm_handle.h"
#include "src/api/comm_internal.h"
#include "src/api/group/group.h"
#include "src/base/env/launch_env.h"

namespace bps {
namespace {

// If the program was compiled with another header, bpsHeaderVersion is the constant of that header.
Status checkHeaderVersion() {
  // C++ would replace the name of the constant by its value. A weak object is read through a pointer.
  const int* programVersion = &bpsHeaderVersion;
  const int header = *programVersion;
  const auto majorOf = [](int version) { return version / 10000; };
  const auto minorOf = [](int version) { return version / 100 % 100; };
  const bool compatible =
      majorOf(header) == BPS_MAJOR && (BPS_MAJOR == 0 ? minorOf(header) == BPS_MINOR : minorOf(header) <= BPS_MINOR);
  if (compatible) return {};
  return failure(Code::kInvalidUsage,
                 "the program was compiled with bps.h of version {}.{}.{}, but the loaded libbps has version {}.{}.{}; "
                 "compile the program again, or let LD_LIBRARY_PATH name a library of version {}.{}",
                 majorOf(header), minorOf(header), header % 100, BPS_MAJOR, BPS_MINOR, BPS_PATCH, majorOf(header),
                 minorOf(header));
}

// The environment of a call that starts a communicator.
Result<Env> startEnv() {
  BPS_TRY(checkHeaderVersion());
  return processEnv();
}

struct RankSpec {
  int nRanks, rank;
  int device = -1;  // CUDA device; -1 means the calling thread's current device
  bool formsGpuGroups = true;
};

Status initRank(bpsComm_t* comm, const bpsUniqueId& id, const RankSpec& spec, const bpsConfig_t* config) {
  const auto [nRanks, rank, device, formsGpuGroups] = spec;
  if (comm == nullptr) return badArgument("comm is NULL");
  *comm = nullptr;
  if (nRanks < 1) return badArgument("nranks is {}, expected at least 1", nRanks);
  if (rank < 0 || rank >= nRanks) return badArgument("rank is {}, expected 0 to {}", rank, nRanks - 1);
  const bool blocking = BPS_TRY(blockingOf(config, true));
  const Env env = BPS_TRY(startEnv());
  Communicator::Membership membership;
  membership.id = BPS_TRY(UniqueId::parse(
      std::span<const uint8_t, kUniqueIdBytes>(reinterpret_cast<const uint8_t*>(id.internal), kUniqueIdBytes)));
  membership.rank = static_cast<uint32_t>(rank);
  membership.nRanks = static_cast<uint32_t>(nRanks);
  membership.device = device;
  std::unique_ptr<bpsComm> handle = BPS_TRY(createHandle(env, membership, blocking));
  handle->formsGpuGroups = formsGpuGroups;
  return startHandle(comm, std::move(handle));
}

// Joins one communicator of all processes of a launcher, with one rank in each process.
Status initFromEnv(bpsComm_t* comm) {
  if (comm == nullptr) return badArgument("comm is NULL");
  *comm = nullptr;
  Env env = BPS_TRY(startEnv());
  const LaunchEnv place = BPS_TRY(readLaunchEnv(processLookup()));
  if (!place.root.empty()) env.root = place.root;
  for (const std::string& note : place.notes) logInfo(Subsystem::kInit, "{}", note);
  Communicator::Membership membership;
  membership.id = BPS_TRY(place.processes > 1 ? UniqueId::create(env) : UniqueId::createHere(env));
  membership.rank = static_cast<uint32_t>(place.process);
  membership.nRanks = static_cast<uint32_t>(place.processes);
  return startHandle(comm, BPS_TRY(createHandle(env, membership, true)));
}

// As in NCCL, rank i uses device i if there is no list. If there are fewer devices than ranks, the
// remaining ranks use host memory.
Result<std::vector<int>> devicesOf(int ranks, const int* list, const Env& env) {
  const int devices = BPS_TRY(CudaBackend::devices(env));
  std::vector<int> deviceOfRank(static_cast<size_t>(ranks), -1);
  for (int rank = 0; rank < ranks && devices > 0; ++rank) {
    const int device = list != nullptr ? list[rank] : rank;
    if (list != nullptr && (device < 0 || device >= devices))
      return badArgument("devlist[{}] is {}, expected 0 to {}", rank, device, devices - 1);
    if (device < devices) deviceOfRank[static_cast<size_t>(rank)] = device;
  }
  return deviceOfRank;
}

Status initAll(bpsComm_t* comms, int count, const int* devices) {
  if (comms == nullptr) return badArgument("comms is NULL");
  if (count < 1) return badArgument("ndev is {}, expected at least 1", count);
  std::fill_n(comms, count, nullptr);
  if (Group::forThisThread().open()) return {Code::kInvalidUsage, "bpsCommInitAll inside a group"};
  const Env env = BPS_TRY(startEnv());
  const std::vector<int> deviceOfRank = BPS_TRY(devicesOf(count, devices, env));
  // The id ignores BPS_ROOT, because all ranks meet in this process.
  const auto bytes = BPS_TRY(UniqueId::createHere(env)).bytes();
  bpsUniqueId id;
  std::memcpy(id.internal, bytes.data(), bytes.size());
  Group& group = Group::forThisThread();
  group.begin();
  Status started = guarded([&]() -> Status {
    for (int rank = 0; rank < count; ++rank)
      BPS_TRY(initRank(&comms[rank], id, {count, rank, deviceOfRank[static_cast<size_t>(rank)]}, nullptr));
    return group.end();
  });
  if (group.open()) group.cancel();
  if (started.ok()) return {};
  for (int rank = 0; rank < count; ++rank) delete std::exchange(comms[rank], nullptr);
  return started;
}

}  // namespace
}  // namespace bps

using namespace bps;

bpsResult_t bpsGetUniqueId(bpsUniqueId* uniqueId) {
  return apiGuard(__func__, [&]() -> Status {
    if (uniqueId == nullptr) return badArgument("uniqueId is NULL");
    const Env env = BPS_TRY(startEnv());
    const auto bytes = BPS_TRY(UniqueId::create(env)).bytes();
    std::memcpy(uniqueId->internal, bytes.data(), bytes.size());
    return {};
  });
}

bpsResult_t bpsCommInitRank(bpsComm_t* comm, int nranks, bpsUniqueId commId, int rank) {
  return apiGuard(__func__, [&] { return initRank(comm, commId, {nranks, rank}, nullptr); });
}

bpsResult_t bpsCommInitRankConfig(bpsComm_t* comm, int nranks, bpsUniqueId commId, int rank, bpsConfig_t* config) {
  return apiGuard(__func__, [&] { return initRank(comm, commId, {nranks, rank}, config); });
}

bpsResult_t bps::commInitWithoutGpuGroups(bpsComm_t* comm, int nRanks, const bpsUniqueId& id, int rank) {
  bpsConfig_t config = BPS_CONFIG_INITIALIZER;
  config.blocking = 0;
  RankSpec spec{nRanks, rank};
  spec.formsGpuGroups = false;
  return apiGuard("bpsCommInitRankConfig", [&] { return initRank(comm, id, spec, &config); });
}

bpsResult_t bpsCommInitFromEnv(bpsComm_t* comm) {
  return apiGuard(__func__, [&] { return initFromEnv(comm); });
}

bpsResult_t bpsCommInitAll(bpsComm_t* comms, int ndev, const int* devlist) {
  return apiGuard(__func__, [&] { return initAll(comms, ndev, devlist); });
}
