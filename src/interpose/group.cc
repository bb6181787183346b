#include "src/interpose/group.h"

#include "src/nccl/real_nccl.h"

namespace bps::interpose {

Group& Group::ofThisThread() {
  thread_local Group group;
  return group;
}

ncclResult_t Group::start() {
  const ncclResult_t started = BPS_REAL(ncclGroupStart);
  if (started == ncclSuccess) ++depth_;
  return started;
}

ncclResult_t Group::end() {
  if (depth_ == 0 || --depth_ > 0 || queued_ == nullptr) return BPS_REAL(ncclGroupEnd);
  const std::shared_ptr<const CallGroup> callGroup = std::exchange(queued_, nullptr);
  // NCCL's group must end before the negotiation, because an open group would delay the negotiation's calls on the
  // communicator.
  if (!callGroup->negotiated()) {
    const ncclResult_t theirs = BPS_REAL(ncclGroupEnd);
    return worse(theirs, callGroup->execute());
  }
  // bps issues its calls first, because NCCL also orders collectives before sends and receives. Ranks may differ in
  // their sends and receives, so the order of the collectives must not depend on them.
  ncclResult_t first = callGroup->issue(CallGroup::Issuer::kCallerInGroup);
  first = worse(first, BPS_REAL(ncclGroupEnd));
  return worse(first, callGroup->finish());
}

ncclResult_t Group::simulateEnd(ncclSimInfo_t* info) {
  if (depth_ > 0 && --depth_ == 0)
    if (const std::shared_ptr<const CallGroup> callGroup = std::exchange(queued_, nullptr))
      callGroup->destroyDeferredOps();
  return BPS_REAL(ncclGroupSimulateEnd, info);
}

void Group::enqueue(std::shared_ptr<Shadow> shadow, const Call& call) {
  if (queued_ == nullptr) queued_ = std::make_shared<CallGroup>();
  queued_->add(std::move(shadow), call);
}

bool Group::deferOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  const bool used = queued_ != nullptr && queued_->uses(op, comm);
  if (used) queued_->destroyOpLater(op, comm);
  return used;
}

}  // namespace bps::interpose
