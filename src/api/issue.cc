#include "src/api/issue.h"

#include <map>

#include "src/api/gpu_groups.h"
#include "src/plan/fusion.h"

namespace bps {
namespace {

// Numbers the calls of each communicator that fuses calls. Other communicators number their calls
// when these are issued.
void numberCalls(std::vector<DeferredCall>& calls) {
  std::map<Communicator*, std::vector<AllReduceCall*>> byComm;
  for (DeferredCall& deferred : calls)
    if (readyCommunicator(&deferred.reference->handle()).ok() && (*deferred.reference)->fusesCalls())
      byComm[&**deferred.reference].push_back(&deferred.call);
  for (const auto& [comm, own] : byComm) {
    uint64_t number = comm->reserveNumbers(own.size());
    for (AllReduceCall* call : own) call->number = number++;
  }
}

GroupCall describeForFusion(const DeferredCall& deferred) {
  const AllReduceCall& call = deferred.call;
  GroupCall described;
  described.comm = &deferred.reference->handle();
  described.number = call.number.value_or(0);
  described.bytes = call.bytes();
  described.type = static_cast<uint8_t>(call.type);
  described.op = static_cast<uint8_t>(call.op);
  described.mayFuse = call.number && call.stream != nullptr && call.op != CallOp::kPreMulSum;
  described.reads = call.reads();
  described.writes = call.writes();
  return described;
}

}  // namespace

Status issue(bpsComm& handle, const AllReduceCall& call) {
  const HandleReference reference = BPS_TRY(readyCommunicator(&handle));
  return BPS_TRY(issueToGpuGroup(handle, call)) ? Status() : reference->allReduce(call);
}

Status issueGroup(std::vector<DeferredCall>& calls) {
  numberCalls(calls);
  std::vector<GroupCall> described;
  for (const DeferredCall& deferred : calls) described.push_back(describeForFusion(deferred));
  Status first;
  for (const std::vector<size_t>& together : fuseCalls(described)) {
    const DeferredCall& deferred = calls[together.front()];
    if (together.size() == 1) {
      keepFirst(first, issue(deferred.reference->handle(), deferred.call));
      continue;
    }
    std::vector<AllReduceCall> fused;
    for (const size_t index : together) fused.push_back(calls[index].call);
    keepFirst(first, (*deferred.reference)->allReduceFused(fused));
  }
  return first;
}

}  // namespace bps
