// Communicators: starting, splitting, ending, asking.
#include <algorithm>
#include <cstring>
#include <vector>

#include "bps/bps_ext.h"
#include "src/api/border.h"
#include "src/api/comm_handle.h"
#include "src/api/part.h"
#include "src/api/teaming.h"

namespace bps {
namespace {

Result<bool> blockingOf(const bpsConfig_t* config, bool inherited) {
  if (config == nullptr) return inherited;
  if (config->magic != BPS_CONFIG_MAGIC || config->size < offsetof(bpsConfig_t, cgaClusterSize))
    return badArgument("config was not started from BPS_CONFIG_INITIALIZER");
  if (config->blocking == BPS_CONFIG_UNDEF_INT) return inherited;
  if (config->blocking != 0 && config->blocking != 1)
    return badArgument("config.blocking is {}, expected 0 or 1", config->blocking);
  return config->blocking == 1;
}

Result<std::unique_ptr<bpsComm>> newHandle(const Env& env, const Communicator::Membership& membership, bool blocking) {
  auto handle = std::make_unique<bpsComm>();
  handle->communicator = BPS_TRY(Communicator::create(env, membership));
  handle->rank = membership.rank;
  handle->nRanks = membership.nRanks;
  handle->blocking = blocking;
  return handle;
}

struct Seat {
  int nRanks, rank;
  int device = -1;  // of CUDA, where there is one; -1: the thread's
};

Status initRank(bpsComm_t* comm, const bpsUniqueId& id, const Seat& seat, const bpsConfig_t* config) {
  const auto [nRanks, rank, device] = seat;
  if (comm == nullptr) return badArgument("comm is NULL");
  *comm = nullptr;
  if (nRanks < 1) return badArgument("nranks is {}, expected at least 1", nRanks);
  if (rank < 0 || rank >= nRanks) return badArgument("rank is {}, expected 0 to {}", rank, nRanks - 1);
  const bool blocking = BPS_TRY(blockingOf(config, true));
  const Env env = BPS_TRY(processEnv());
  Communicator::Membership membership;
  membership.id = BPS_TRY(UniqueId::parse(
      std::span<const uint8_t, kUniqueIdBytes>(reinterpret_cast<const uint8_t*>(id.internal), kUniqueIdBytes)));
  membership.rank = static_cast<uint32_t>(rank);
  membership.nRanks = static_cast<uint32_t>(nRanks);
  membership.device = device;
  return startHandle(comm, BPS_TRY(newHandle(env, membership, blocking)));
}

// As NCCL: without a list rank i is on device i. Where there are fewer, ranks on host memory still find a place.
Result<std::vector<int>> devicesOf(int ranks, const int* list, const Env& env) {
  const int devices = BPS_TRY(CudaSide::devices(env));
  std::vector<int> chosen(static_cast<size_t>(ranks), -1);
  for (int rank = 0; rank < ranks && devices > 0; ++rank) {
    const int device = list != nullptr ? list[rank] : rank;
    if (list != nullptr && (device < 0 || device >= devices))
      return badArgument("devlist[{}] is {}, expected 0 to {}", rank, device, devices - 1);
    if (device < devices) chosen[static_cast<size_t>(rank)] = device;
  }
  return chosen;
}

Status initAll(bpsComm_t* comms, int count, const int* devices) {
  if (comms == nullptr) return badArgument("comms is NULL");
  if (count < 1) return badArgument("ndev is {}, expected at least 1", count);
  std::fill_n(comms, count, nullptr);
  if (Group::ofThisThread().open()) return {Code::kInvalidUsage, "bpsCommInitAll inside a group"};
  const Env env = BPS_TRY(processEnv());
  const std::vector<int> chosen = BPS_TRY(devicesOf(count, devices, env));
  const auto bytes = BPS_TRY(UniqueId::createHere(env)).bytes();  // BPS_ROOT names the meeting of other processes
  bpsUniqueId id;
  std::memcpy(id.internal, bytes.data(), bytes.size());
  Group::ofThisThread().begin();
  Status asked;
  for (int rank = 0; rank < count && asked.ok(); ++rank)
    asked = initRank(&comms[rank], id, {count, rank, chosen[static_cast<size_t>(rank)]}, nullptr);
  Status started = Group::ofThisThread().end();
  if (asked.ok() && started.ok()) return {};
  for (int rank = 0; rank < count; ++rank) delete std::exchange(comms[rank], nullptr);
  return asked.ok() ? std::move(started) : std::move(asked);
}

Status split(bpsComm_t comm, int color, int key, bpsComm_t* newComm, const bpsConfig_t* config) {
  if (newComm == nullptr) return badArgument("newcomm is NULL");
  *newComm = nullptr;
  if (color < 0 && color != BPS_SPLIT_NOCOLOR)
    return badArgument("color is {}, expected at least 0 or BPS_SPLIT_NOCOLOR", color);
  const Visit parent = BPS_TRY(readyCommunicator(comm));
  const bool blocking = BPS_TRY(blockingOf(config, comm->blocking));
  const auto membership = BPS_TRY(parent->split(color, key));
  if (!membership) return {};
  return startHandle(newComm, BPS_TRY(newHandle(parent->env(), *membership, blocking)));
}

// A team's calls end after those of bps that they are made of.
Status finalize(const bpsComm& handle) {
  Status ofTeam = handle.communicator->finalized() ? Status() : finalizeTeam(handle);
  Status whole = handle.communicator->finalize();
  return ofTeam.ok() ? std::move(whole) : std::move(ofTeam);
}

// Works on a thread of its own, which who ends the communicator waits for.
Status finalizeLater(bpsComm& handle) {
  auto before = bpsComm::End::kNotAsked;
  if (!handle.end.compare_exchange_strong(before, bpsComm::End::kUnderWay))
    return {Code::kInvalidUsage, "the communicator has been finalized already"};
  const auto done = [&handle](Status outcome) {
    if (!outcome.ok()) handle.error.set(outcome);
    handle.end.store(bpsComm::End::kDone, std::memory_order_release);
    return outcome;
  };
  if (handle.worker.joinable()) handle.worker.join();  // has started it
  Status begun = guarded(
      [&] { handle.worker = std::thread([&handle, done] { (void)done(guarded([&] { return finalize(handle); })); }); });
  return begun.ok() ? Status(Code::kInProgress, "finalizing") : done(std::move(begun));
}

Status destroy(bpsComm_t comm) {
  bpsComm* handle = BPS_TRY(checkedHandle(comm));
  const std::unique_ptr<bpsComm> owner(handle);
  if (handle->worker.joinable()) handle->worker.join();
  if (handle->state.load() != bpsComm::State::kReady) return {};
  // What became of a non-blocking finalize, perhaps nobody has asked.
  Status finalized = handle->communicator->finalized() ? handle->error.get() : finalize(*handle);
  // What NCCL has been asked for never ends where somebody is missing.
  if (handle->team != nullptr) handle->team->end(!finalized.ok() || !handle->communicator->failure().ok());
  return finalized;
}

Status revoke(bpsComm_t comm, int flags) {
  const Visit visit = BPS_TRY(Visit::of(comm));
  if (flags != 0) return badArgument("revokeFlags is {}, expected 0", flags);
  visit->abort();
  return {};
}

// A thread inside a call leaves it now; unless it stands in a queue of CUDA's that only another communicator's end lets
// move: then the handle is left to it.
Status abortComm(bpsComm_t comm) {
  bpsComm* handle = BPS_TRY(checkedHandle(comm));
  handle->communicator->abort();
  if (nccl::Team* team = teamOf(*handle)) team->end(true);
  handle->communicator->letGo();
  const Deadline deadline = Deadline::in(nccl::kLeaving);
  while (handle->visits.load() > 1 && !deadline.passed()) std::this_thread::sleep_for(std::chrono::microseconds(50));
  if (handle->state.load(std::memory_order_acquire) == bpsComm::State::kReady) handle->communicator->awaitRest();
  leave(*handle);
  return {};
}

// Of a communicator that has started.
Status errorOf(const bpsComm& handle) {
  const auto end = handle.end.load(std::memory_order_acquire);
  if (Status failed = failureOf(handle); !failed.ok()) return failed;
  return end == bpsComm::End::kUnderWay ? Status(Code::kInProgress, "finalizing") : handle.error.get();
}

Status asyncError(bpsComm_t comm, bpsResult_t* result) {
  if (result == nullptr) return badArgument("asyncError is NULL");
  const Visit visit = BPS_TRY(Visit::of(comm));
  const bpsComm& handle = visit.handle();
  const auto state = handle.state.load(std::memory_order_acquire);
  if (state == bpsComm::State::kStarting) *result = bpsInProgress;
  else if (state == bpsComm::State::kFailed) *result = static_cast<bpsResult_t>(handle.error.get().code());
  else *result = static_cast<bpsResult_t>(errorOf(handle).code());
  return {};
}

std::string lastErrorOf(bpsComm_t comm) {
  const Result<Visit> visit = Visit::of(comm);
  if (!visit.ok()) return threadError();
  const auto state = comm->state.load(std::memory_order_acquire);
  if (state == bpsComm::State::kFailed) return comm->error.get().message();
  if (state == bpsComm::State::kReady && !errorOf(*comm).ok()) return errorOf(*comm).message();
  return threadError();
}

template <class T>
Status store(T* out, const char* name, T value) {
  if (out == nullptr) return badArgument("{} is NULL", name);
  *out = value;
  return {};
}

}  // namespace
}  // namespace bps

using namespace bps;

bpsResult_t bpsGetUniqueId(bpsUniqueId* uniqueId) {
  return border(__func__, [&]() -> Status {
    if (uniqueId == nullptr) return badArgument("uniqueId is NULL");
    const Env env = BPS_TRY(processEnv());
    const auto bytes = BPS_TRY(UniqueId::create(env)).bytes();
    std::memcpy(uniqueId->internal, bytes.data(), bytes.size());
    return {};
  });
}

bpsResult_t bpsCommInitRank(bpsComm_t* comm, int nranks, bpsUniqueId commId, int rank) {
  return border(__func__, [&] { return initRank(comm, commId, {nranks, rank}, nullptr); });
}

bpsResult_t bpsCommInitRankConfig(bpsComm_t* comm, int nranks, bpsUniqueId commId, int rank, bpsConfig_t* config) {
  return border(__func__, [&] { return initRank(comm, commId, {nranks, rank}, config); });
}

bpsResult_t bpsCommInitAll(bpsComm_t* comms, int ndev, const int* devlist) {
  return border(__func__, [&] { return initAll(comms, ndev, devlist); });
}

bpsResult_t bpsCommSplit(bpsComm_t comm, int color, int key, bpsComm_t* newcomm, bpsConfig_t* config) {
  return border(__func__, [&] { return split(comm, color, key, newcomm, config); });
}

bpsResult_t bps::commBecomesPart(bpsComm_t part, bpsComm_t whole, const std::string& name) {
  return border(__func__, [&]() -> Status {
    const Visit visit = BPS_TRY(readyCommunicator(whole));
    BPS_TRY(readyCommunicator(part))->becomePart(*visit, name);
    return {};
  });
}

bpsResult_t bps::commFail(bpsComm_t comm, bpsResult_t result, const std::string& why) {
  return border(__func__, [&]() -> Status {
    BPS_TRY(readyCommunicator(comm))->fail({static_cast<Code>(result), why});
    return {};
  });
}

bpsResult_t bps::commEndIfLeftBehind(bpsComm_t comm, Deadline& until) {
  return border(__func__, [&]() -> Status {
    BPS_TRY(readyCommunicator(comm))->endIfLeftBehind(until);
    return {};
  });
}

bool bps::commIsUnderWay(bpsComm_t comm) {
  Result<Visit> visit = readyCommunicator(comm);
  return visit.ok() && std::move(visit).value()->underWay();
}

bps::CommUse::CommUse(bpsComm_t comm) : comm_(comm) { comm_->visits.fetch_add(1); }

bps::CommUse::~CommUse() { leave(*comm_); }

bpsResult_t bps::commFinalize(bpsComm_t comm) {
  return border(__func__, [&]() -> Status {
    const Visit visit = BPS_TRY(readyCommunicator(comm));
    return finalize(*comm);
  });
}

bpsResult_t bpsCommFinalize(bpsComm_t comm) {
  return border(__func__, [&]() -> Status {
    const Visit visit = BPS_TRY(readyCommunicator(comm));
    return comm->blocking ? finalize(*comm) : finalizeLater(*comm);
  });
}

bpsResult_t bpsCommDestroy(bpsComm_t comm) {
  return border(__func__, [&] { return destroy(comm); });
}

bpsResult_t bpsCommAbort(bpsComm_t comm) {
  return border(__func__, [&] { return abortComm(comm); });
}

bpsResult_t bpsCommRevoke(bpsComm_t comm, int revokeFlags) {
  return border(__func__, [&] { return revoke(comm, revokeFlags); });
}

bpsResult_t bpsCommGetAsyncError(bpsComm_t comm, bpsResult_t* asyncError_) {
  return border(__func__, [&] { return asyncError(comm, asyncError_); });
}

bpsResult_t bpsCommCount(bpsComm_t comm, int* count) {
  return border(__func__, [&]() -> Status {
    return store(count, "count", static_cast<int>(BPS_TRY(readyCommunicator(comm))->nRanks()));
  });
}

bpsResult_t bpsCommUserRank(bpsComm_t comm, int* rank) {
  return border(__func__, [&]() -> Status {
    return store(rank, "rank", static_cast<int>(BPS_TRY(readyCommunicator(comm))->rank()));
  });
}

bpsResult_t bpsCommCuDevice(bpsComm_t comm, int* device) {
  return border(__func__, [&]() -> Status {
    return store(device, "device", BPS_TRY(readyCommunicator(comm))->device().value_or(0));
  });
}

bpsResult_t bpsCommDescribe(bpsComm_t comm, char* text, size_t size) {
  return border(__func__, [&]() -> Status {
    const std::string facts = BPS_TRY(readyCommunicator(comm))->describe();
    if (text == nullptr || size < facts.size() + 1)
      return badArgument("text has room for {} bytes, {} are needed", size, facts.size() + 1);
    std::memcpy(text, facts.c_str(), facts.size() + 1);
    return {};
  });
}

bpsResult_t bpsGetVersion(int* version) {
  return border(__func__, [&] { return store(version, "version", BPS_VERSION_CODE); });
}

const char* bpsGetLastError(bpsComm_t comm) {
  thread_local std::string text;
  const Status status = guarded([&] { text = lastErrorOf(comm); });
  return status.ok() ? text.c_str() : "";
}

const char* bpsGetErrorString(bpsResult_t result) {
  static constexpr const char* kTexts[] = {"no error",
                                           "unhandled CUDA error",
                                           "system error",
                                           "internal error",
                                           "invalid argument",
                                           "invalid usage",
                                           "remote process failed or was cut off",
                                           "still in progress",
                                           "timed out"};
  return result >= 0 && result < bpsNumResults ? kTexts[result] : "unknown result code";
}
