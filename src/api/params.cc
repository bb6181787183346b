// The C functions for the parameters of asynchronous training.
#include <bps/params.h>

#include <algorithm>

#include "src/api/api_guard.h"
#include "src/api/call_arguments.h"
#include "src/api/comm_handle.h"
#include "src/api/group/group.h"

namespace bps {
namespace {

// Another thread may abort the communicator at any time.
Status start(bpsComm& handle) {
  handle.parameters = BPS_TRY(ParamGroup::create(*handle.communicator));
  handle.abortable.store(handle.parameters.get());
  if (!handle.communicator->failure().ok()) handle.parameters->abort();
  BPS_TRY(handle.parameters->start(*handle.communicator));
  handle.parametersStarted = true;
  return {};
}

Result<ParamGroup*> parametersOf(const bpsComm& handle) {
  if (handle.parametersStarted) return handle.parameters.get();
  if (handle.parameters != nullptr) return Status(Code::kInvalidUsage, "the first bpsParamInit of comm has failed");
  return badArgument("comm has no parameters; call bpsParamInit first");
}

Status init(bpsComm_t comm, uint64_t key, void* data, size_t count, bpsDataType_t datatype) {
  const DataType type = BPS_TRY(checkedType(datatype));
  BPS_TRY(checkBuffers(data, data, count, type));
  const HandleReference caller = BPS_TRY(readyCommunicator(comm));
  if (caller->finalized()) return {Code::kInvalidUsage, "comm has been finalized"};
  if (caller.handle().parameters == nullptr) BPS_TRY(start(caller.handle()));
  ParamGroup* const group = BPS_TRY(parametersOf(caller.handle()));
  return group->init(key, data, count, type);
}

struct Request {
  CallOp op;
  uint64_t key;
  const void* change;
  void* latest;
  size_t count;
  bpsDataType_t type;
};

Status issue(bpsComm_t comm, const Request& request, cudaStream_t stream) {
  AllReduceCall call;
  call.op = request.op;
  call.type = BPS_TRY(checkedType(request.type));
  call.send = request.change;
  call.recv = request.latest;
  call.count = request.count;
  call.stream = HostStream::find(stream);
  call.handle = stream;
  BPS_TRY(checkBuffers(call.send, call.recv, call.count, call.type));
  const HandleReference caller = BPS_TRY(readyCommunicator(comm));
  if (call.stream == nullptr && !caller->device())
    return badArgument("stream {} is not a host stream, and there is no CUDA device", static_cast<const void*>(stream));
  ParamGroup* const group = BPS_TRY(parametersOf(caller.handle()));
  return group->request(request.key, call);
}

Status pushes(bpsComm_t comm, uint64_t key, uint64_t* pushes) {
  if (pushes == nullptr) return badArgument("pushes is NULL");
  const HandleReference caller = BPS_TRY(readyCommunicator(comm));
  const ParamGroup* const group = BPS_TRY(parametersOf(caller.handle()));
  const std::vector<uint32_t> all = BPS_TRY(group->pushes(key));
  std::copy(all.begin(), all.end(), pushes);
  return {};
}

}  // namespace
}  // namespace bps

using namespace bps;

bpsResult_t bpsParamInit(bpsComm_t comm, uint64_t key, void* data, size_t count, bpsDataType_t datatype) {
  return apiGuard(__func__, [&] { return init(comm, key, data, count, datatype); });
}

// NOLINTNEXTLINE(readability-function-size): as bpsAllReduce
bpsResult_t bpsParamPush(bpsComm_t comm, uint64_t key, const void* change, size_t count, bpsDataType_t datatype,
                         cudaStream_t stream) {
  return apiGuard(__func__, [&] {
    return issue(comm, {CallOp::kParamPush, key, change, const_cast<void*>(change), count, datatype}, stream);
  });
}

// NOLINTNEXTLINE(readability-function-size): as bpsAllReduce
bpsResult_t bpsParamPull(bpsComm_t comm, uint64_t key, void* latest, size_t count, bpsDataType_t datatype,
                         cudaStream_t stream) {
  return apiGuard(__func__, [&] {
    return issue(comm, {CallOp::kParamPull, key, latest, latest, count, datatype}, stream);
  });
}

// NOLINTNEXTLINE(readability-function-size): as bpsAllReduce
bpsResult_t bpsParamPushPull(bpsComm_t comm, uint64_t key, const void* change, void* latest, size_t count,
                             bpsDataType_t datatype, cudaStream_t stream) {
  return apiGuard(__func__, [&] {
    return issue(comm, {CallOp::kParamPushPull, key, change, latest, count, datatype}, stream);
  });
}

bpsResult_t bpsParamBarrier(bpsComm_t comm) {
  return apiGuard(__func__, [&]() -> Status {
    const HandleReference caller = BPS_TRY(readyCommunicator(comm));
    ParamGroup* const group = BPS_TRY(parametersOf(caller.handle()));
    return group->barrier();
  });
}

bpsResult_t bpsParamPushes(bpsComm_t comm, uint64_t key, uint64_t* pushes) {
  return apiGuard(__func__, [&] { return bps::pushes(comm, key, pushes); });
}
