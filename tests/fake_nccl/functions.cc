// The NCCL functions that the fake implements.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "src/interpose/nccl/exported.h"
#include "tests/fake_nccl/call_log.h"
#include "tests/fake_nccl/comm.h"

using namespace bps::fake;
using Kind = Operation::Kind;

namespace {

bool wantsBlocking(const ncclConfig_t* config, bool inherited = true) {
  return config == nullptr ? inherited : reinterpret_cast<const bpsConfig_t*>(config)->blocking != 0;
}

// Handles of destroyed communicators. The next communicator gets the last of these handles again,
// because a real allocator may also reuse memory.
std::mutex freedMutex;
std::vector<ncclComm_t> freed;

ncclComm_t newHandle() {
  const std::lock_guard<std::mutex> lock(freedMutex);
  if (freed.empty()) return new ncclComm;
  const ncclComm_t handle = freed.back();
  freed.pop_back();
  return handle;
}

ncclResult_t init(ncclComm_t* comm, const std::string& path, int rank, int nRanks, bool blocking) {
  const ncclComm_t made = newHandle();
  made->blocking = blocking;
  made->world = std::make_unique<World>(path, rank, nRanks);
  made->busyPolls = blocking ? 0 : 2;
  if (!blocking) {
    *comm = made;
    return ncclInProgress;
  }
  const auto finish = [=] {
    made->world->waitForAll();
    *comm = made;
  };
  if (queue().depth > 0) queue().inits.emplace_back(finish);
  else finish();
  return ncclSuccess;
}

// Checks that the communicator is ready. This function calls ncclCommGetAsyncError through the PLT,
// as NCCL does.
ncclResult_t ensureReady(ncclComm_t comm) {
  if (comm == nullptr || comm->world->aborted()) return ncclInvalidArgument;
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(comm, &state);
  return asked != ncclSuccess || state != ncclSuccess ? ncclInvalidArgument : ncclSuccess;
}

ncclResult_t call(int failure, const Operation& operation) {
  if (failure != 0) return static_cast<ncclResult_t>(failure);
  const ncclResult_t ready = ensureReady(operation.comm);
  return ready != ncclSuccess || operation.count == 0 ? ready : submit(operation);
}

}  // namespace

ncclResult_t pncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}
const char* pncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "an error of the NCCL double";
}
const char* pncclGetLastError(ncclComm_t) { return "last error of the NCCL double"; }

ncclResult_t pncclGetUniqueId(ncclUniqueId* id) {
  static std::atomic<int> number{0};
  const char* directory = std::getenv("FAKE_NCCL_DIR");
  const std::string path = std::string(directory != nullptr ? directory : "/tmp") + "/" + std::to_string(::getpid()) +
                           "." + std::to_string(number++);
  std::memset(id, 0, sizeof *id);
  std::strncpy(id->internal, path.c_str(), sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t pncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (const int failure = record("ncclCommInitRankConfig")) return static_cast<ncclResult_t>(failure);
  return init(comm, id.internal, rank, ranks, wantsBlocking(config));
}
ncclResult_t pncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  if (const int failure = record("ncclCommInitRank")) return static_cast<ncclResult_t>(failure);
  return init(comm, id.internal, rank, ranks, true);
}
ncclResult_t pncclCommInitAll(ncclComm_t* comms, int count, const int*) {
  record("ncclCommInitAll");
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  queue().depth++;
  for (int rank = 0; rank < count; ++rank) init(&comms[rank], id.internal, rank, count, true);
  queue().depth--;
  return runQueue(queue());
}

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config) {
  const int failure = record("ncclCommSplit");
  const int mine[2] = {color, key};
  const std::vector<uint8_t> all = allGatherBytes(*comm->world, mine, sizeof mine);
  const auto* splits = reinterpret_cast<const int*>(all.data());
  int rank = 0, members = 0;
  for (int other = 0; other < comm->world->nRanks(); ++other) {
    if (splits[2 * other] != color) continue;
    ++members;
    rank += splits[2 * other + 1] < key || (splits[2 * other + 1] == key && other < comm->world->rank());
  }
  const std::string path = comm->world->path() + ".s" + std::to_string(comm->children++) + "." + std::to_string(color);
  *made = nullptr;
  const ncclResult_t done =
      color < 0 ? ncclSuccess : init(made, path, rank, members, wantsBlocking(config, comm->blocking));
  return failure != 0 ? static_cast<ncclResult_t>(failure) : done;
}

ncclResult_t pncclCommShrink(ncclComm_t comm, int* exclude, int count, ncclComm_t* made, ncclConfig_t* config,
                             int flags) {
  record("ncclCommShrink", static_cast<size_t>(flags));
  if ((flags & kShrinkAbort) != 0) comm->world->abort();
  int rank = comm->world->rank();
  for (int i = 0; i < count; ++i) rank -= exclude[i] < comm->world->rank();
  const std::string path = comm->world->path() + ".k" + std::to_string(comm->children++);
  return init(made, path, rank, comm->world->nRanks() - count, wantsBlocking(config));
}

ncclResult_t pncclCommCount(const ncclComm_t comm, int* count) {
  if (comm == nullptr || (!comm->blocking && comm->busyPolls > 0)) return ncclInvalidArgument;
  *count = comm->world->nRanks();
  return ncclSuccess;
}
ncclResult_t pncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->world->rank();
  return ncclSuccess;
}
ncclResult_t pncclCommCuDevice(const ncclComm_t, int* device) {
  const char* given = std::getenv("FAKE_NCCL_DEVICE");
  *device = given != nullptr ? std::atoi(given) : 0;
  return ncclSuccess;
}

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
  if (const int failure = record("ncclCommGetAsyncError")) {
    *result = static_cast<ncclResult_t>(failure);
    return ncclSuccess;
  }
  const bool busy = !comm->blocking && (!comm->world->allJoined() || comm->busyPolls > 0);
  if (busy && comm->world->allJoined()) --comm->busyPolls;
  *result = busy ? ncclInProgress : comm->world->aborted() ? ncclRemoteError : ncclSuccess;
  return ncclSuccess;
}

ncclResult_t pncclCommFinalize(ncclComm_t comm) {
  if (const int failure = record("ncclCommFinalize")) return static_cast<ncclResult_t>(failure);
  if (comm->blocking || std::getenv("FAKE_NCCL_PROMPT_FINALIZE") != nullptr) return ncclSuccess;
  comm->busyPolls = 2;
  return ncclInProgress;
}
ncclResult_t pncclCommDestroy(ncclComm_t comm) {
  record("ncclCommDestroy");
  comm->~ncclComm();
  new (comm) ncclComm();
  const std::lock_guard<std::mutex> lock(freedMutex);
  freed.push_back(comm);
  return ncclSuccess;
}
ncclResult_t pncclCommAbort(ncclComm_t comm) {
  record("ncclCommAbort");
  comm->world->abort();  // not freed, because a waiting call may still read the communicator
  return ncclSuccess;
}

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t, ncclScalarResidence_t where,
                                       ncclComm_t comm) {
  record("ncclRedOpCreatePreMulSum");
  float value = 0;
  std::memcpy(&value, where == ncclScalarDevice ? place(scalar) : scalar, sizeof value);
  *op = static_cast<ncclRedOp_t>(comm->nextOp);
  comm->ops[comm->nextOp++] = value;
  return ncclSuccess;
}
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  record("ncclRedOpDestroy");
  return comm->ops.erase(op) == 1 ? ncclSuccess : ncclInvalidArgument;
}

ncclResult_t pncclAllReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream) {
  const int failure = record("ncclAllReduce", count);
  Operation operation{Kind::kAllReduce, comm, send, recv, count, type, op, 0, stream};
  if (op >= ncclNumOps) {
    if (comm->ops.count(op) == 0) return ncclInvalidArgument;
    operation.scale = comm->ops[op];
  }
  return call(failure, operation);
}
ncclResult_t pncclReduceScatter(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t comm, cudaStream_t stream) {
  const int failure = record("ncclReduceScatter", count);
  return call(failure, {Kind::kReduceScatter, comm, send, recv, count, type, op, 0, stream});
}
ncclResult_t pncclReduce(const void* send, void* recv, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
                         ncclComm_t comm, cudaStream_t stream) {
  const int failure = record("ncclReduce", count);
  return call(failure, {Kind::kReduce, comm, send, recv, count, type, op, root, stream});
}
ncclResult_t pncclAllGather(const void* send, void* recv, size_t count, ncclDataType_t type, ncclComm_t comm,
                            cudaStream_t stream) {
  const int failure = record("ncclAllGather", count);
  return call(failure, {Kind::kAllGather, comm, send, recv, count, type, 0, 0, stream});
}
ncclResult_t pncclBroadcast(const void* send, void* recv, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                            cudaStream_t stream) {
  const int failure = record("ncclBroadcast", count);
  return call(failure, {Kind::kBroadcast, comm, send, recv, count, type, 0, root, stream});
}
ncclResult_t pncclBcast(void* buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);  // calls through the PLT, as NCCL does
}
ncclResult_t pncclSend(const void* send, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream) {
  const int failure = record("ncclSend", count);
  return call(failure, {Kind::kSend, comm, send, nullptr, count, type, 0, peer, stream});
}
ncclResult_t pncclRecv(void* recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  const int failure = record("ncclRecv", count);
  return call(failure, {Kind::kRecv, comm, nullptr, recv, count, type, 0, peer, stream});
}

ncclResult_t pncclGroupStart() {
  record("ncclGroupStart");
  ++queue().depth;
  return ncclSuccess;
}
ncclResult_t pncclGroupEnd() {
  record("ncclGroupEnd");
  if (queue().depth == 0) return ncclInvalidUsage;
  return --queue().depth > 0 ? ncclSuccess : runQueue(queue());
}
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t*) {
  record("ncclGroupSimulateEnd");
  if (queue().depth == 0) return ncclInvalidUsage;
  if (--queue().depth == 0) queue() = {};
  return ncclSuccess;
}
