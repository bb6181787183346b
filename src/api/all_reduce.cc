// The C functions for all-reduces, their operations, and groups.
#include <cstring>
#include <utility>

#include "src/api/api_guard.h"
#include "src/api/call_arguments.h"
#include "src/api/comm_handle.h"
#include "src/api/group/group.h"

namespace bps {
namespace {

// Sets the operation of the call. If the user made the operation, also sets the call's scalar.
Status setOp(AllReduceCall& call, bpsRedOp_t op, const bpsComm& handle) {
  const int number = static_cast<int>(op);
  if (number >= 0 && number < bpsNumOps) {
    call.op = static_cast<CallOp>(number);
    return {};
  }
  const auto found = handle.userOps.find(number);
  if (found == handle.userOps.end()) return badArgument("op is {}, no operation of this communicator", number);
  if (found->second.type != call.type)
    return badArgument("op {} was made for {}, the buffers are {}", number, dataTypeName(found->second.type),
                       dataTypeName(call.type));
  call.op = CallOp::kPreMulSum;
  call.scalar = found->second.scalar;
  call.deviceScalar = found->second.deviceScalar;
  return {};
}

struct Arguments {
  const void* send;
  void* recv;
  size_t count;
  bpsDataType_t type;
  bpsRedOp_t op;
};

Status allReduce(const Arguments& args, bpsComm_t comm, cudaStream_t stream) {
  AllReduceCall call;
  call.type = BPS_TRY(checkedType(args.type));
  BPS_TRY(checkBuffers(args.send, args.recv, args.count, call.type));
  const HandleReference caller = BPS_TRY(HandleReference::acquire(comm));
  BPS_TRY(setOp(call, args.op, caller.handle()));
  call.send = args.send;
  call.recv = args.recv;
  call.count = args.count;
  call.stream = HostStream::find(stream);
  call.handle = stream;
  if (call.stream == nullptr && !caller->device())
    return badArgument("stream {} is not a host stream, and there is no CUDA device", static_cast<const void*>(stream));
  Group& group = Group::forThisThread();
  return group.open() ? group.deferCall(comm, std::move(call)) : issue(*comm, call);
}

Status createPreMulSum(bpsRedOp_t* op, const void* scalar, bpsDataType_t type, bpsScalarResidence_t residence,
                       bpsComm_t comm) {
  if (op == nullptr) return badArgument("op is NULL");
  if (scalar == nullptr) return badArgument("scalar is NULL");
  if (residence != bpsScalarDevice && residence != bpsScalarHostImmediate)
    return badArgument("residence is {}, expected 0 or 1", static_cast<int>(residence));
  const HandleReference caller = BPS_TRY(HandleReference::acquire(comm));
  UserOp made;
  made.type = BPS_TRY(checkedType(type));
  if (residence == bpsScalarDevice) made.deviceScalar = scalar;
  else std::memcpy(&made.scalar, scalar, elementBytes(made.type));
  *op = static_cast<bpsRedOp_t>(caller.handle().nextUserOp);
  caller.handle().userOps[caller.handle().nextUserOp++] = made;
  return {};
}

}  // namespace
}  // namespace bps

using namespace bps;

// NOLINTNEXTLINE(readability-function-size): the signature is NCCL's
bpsResult_t bpsAllReduce(const void* sendbuff, void* recvbuff, size_t count, bpsDataType_t datatype, bpsRedOp_t op,
                         bpsComm_t comm, cudaStream_t stream) {
  return apiGuard(__func__, [&] { return allReduce({sendbuff, recvbuff, count, datatype, op}, comm, stream); });
}

bpsResult_t bpsGroupStart() {
  return apiGuard(__func__, [] { Group::forThisThread().begin(); });
}

bpsResult_t bpsGroupEnd() {
  return apiGuard(__func__, [] { return Group::forThisThread().end(); });
}

bpsResult_t bpsRedOpCreatePreMulSum(bpsRedOp_t* op, void* scalar, bpsDataType_t datatype,
                                    bpsScalarResidence_t residence, bpsComm_t comm) {
  return apiGuard(__func__, [&] { return createPreMulSum(op, scalar, datatype, residence, comm); });
}

bpsResult_t bpsRedOpDestroy(bpsRedOp_t op, bpsComm_t comm) {
  return apiGuard(__func__, [&]() -> Status {
    if (BPS_TRY(HandleReference::acquire(comm)).handle().userOps.erase(static_cast<int>(op)) == 0)
      return badArgument("op is {}, no operation made by bpsRedOpCreatePreMulSum", static_cast<int>(op));
    return {};
  });
}
