#include "src/interpose/group.h"

#include "src/nccl/real.h"

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
  if (depth_ == 0 || --depth_ > 0 || held_ == nullptr) return BPS_REAL(ncclGroupEnd);
  const std::shared_ptr<const Batch> batch = std::exchange(held_, nullptr);
  // To settle, ranks talk over the communicator, which an open group would hold up.
  if (!batch->settled()) {
    const ncclResult_t theirs = BPS_REAL(ncclGroupEnd);
    return worse(theirs, batch->carryOut());
  }
  // Ours come first, as NCCL puts collectives before sends and receives: which of those a group holds may differ from
  // rank to rank, so it must not decide anything.
  ncclResult_t first = batch->issue(Batch::By::kCallerInGroup);
  first = worse(first, BPS_REAL(ncclGroupEnd));
  return worse(first, batch->finish());
}

ncclResult_t Group::simulateEnd(ncclSimInfo_t* info) {
  if (depth_ > 0 && --depth_ == 0)
    if (const std::shared_ptr<const Batch> batch = std::exchange(held_, nullptr)) batch->release();
  return BPS_REAL(ncclGroupSimulateEnd, info);
}

void Group::hold(std::shared_ptr<Shadow> shadow, const Call& call) {
  if (held_ == nullptr) held_ = std::make_shared<Batch>();
  held_->add(std::move(shadow), call);
}

bool Group::holdBackDestroy(ncclRedOp_t op, ncclComm_t comm) {
  const bool used = held_ != nullptr && held_->uses(op, comm);
  if (used) held_->releaseLater(op, comm);
  return used;
}

}  // namespace bps::interpose
