#include "src/api/group/issue.h"

#include <map>
#include <set>
#include <utility>

#include "src/api/group/gpu_groups.h"
#include "src/base/guard.h"
#include "src/plan/fusion.h"

namespace bps {
namespace {

// Numbers the calls of each communicator that fuses calls. Other communicators number their calls
// when these are issued.
void numberCalls(std::vector<DeferredCall>& calls) {
  std::map<bpsComm*, std::vector<AllReduceCall*>> byComm;
  for (DeferredCall& deferred : calls) byComm[&deferred.reference->handle()].push_back(&deferred.call);
  for (const auto& [comm, own] : byComm) {
    if (!readyCommunicator(comm).ok() || !comm->communicator->fusesCalls()) continue;
    uint64_t number = comm->communicator->reserveNumbers(own.size());
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
  described.buffers = call.buffers();
  return described;
}

// Issues the calls of a group in order, except that small calls fuse. Returns the first failure.
Status issueFused(std::vector<DeferredCall>& calls) {
  std::vector<GroupCall> described;
  described.reserve(calls.size());
  for (const DeferredCall& deferred : calls) described.push_back(describeForFusion(deferred));
  Status first;
  for (const std::vector<size_t>& together : fuseCalls(described)) {
    const DeferredCall& deferred = calls[together.front()];
    if (together.size() == 1) {
      keepFirst(first, issue(deferred.reference->handle(), deferred.call));
      continue;
    }
    std::vector<AllReduceCall> fused;
    fused.reserve(together.size());
    for (const size_t index : together) fused.push_back(std::move(calls[index].call));
    keepFirst(first, (*deferred.reference)->allReduceFused(fused));
  }
  return first;
}

}  // namespace

Status issue(bpsComm& handle, const AllReduceCall& call) {
  const HandleReference reference = BPS_TRY(readyCommunicator(&handle));
  return BPS_TRY(issueToGpuGroup(handle, call)) ? Status() : reference->allReduce(call);
}

Status issueGroup(std::vector<DeferredCall>& calls) {
  numberCalls(calls);
  std::set<bpsComm*> comms;
  for (const DeferredCall& deferred : calls) comms.insert(&deferred.reference->handle());
  // Calls of several communicators on one stream must come after each other, and so must calls that NCCL combines.
  const bool together =
      comms.size() == 1 && readyCommunicator(*comms.begin()).ok() && gpuGroupOf(**comms.begin()) == nullptr;
  if (!together) return issueFused(calls);
  const Communicator& communicator = *(*comms.begin())->communicator;
  communicator.beginGroup();
  Status first = guarded([&] { return issueFused(calls); });
  keepFirst(first, communicator.endGroup());
  return first;
}

}  // namespace bps
