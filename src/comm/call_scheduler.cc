#include "src/comm/call_scheduler.h"

#include <cstring>

#include "cpu_reduce/reduce.h"
#include "src/base/format.h"

namespace bps {
namespace {

// How long a call may stand still once a rank has said goodbye: what that rank sent before is still on its way. As long
// as a peer may be silent.
std::chrono::milliseconds departedTimeout(const Roster& roster) {
  return std::chrono::milliseconds(roster.settings.timeoutMs) / 2;
}

}  // namespace

CallScheduler::CallScheduler(ControlPlane& control, const JobPlan& plan, const SchedulerArgs& args)
    : control_(control),
      rails_(args.rails),
      plane_(args.plane),
      local_(args.local),
      traffic_(args.traffic),
      staged_(args.staged),
      solo_(staged_ != nullptr ? static_cast<ChunkBuffers&>(*staged_) : userBuffers_),
      cutter_(plan.weights, plan.limits),
      suspected_(control.roster().members()) {}

Result<bool> CallScheduler::step() {
  bool moved = false;
  // In call order: a call that waits for another stream's buffers holds up those behind it, on every rank alike.
  while (!queued_.empty() && queued_.front()->position->mayStart()) {
    BPS_TRY(admit(std::exchange(queued_.front(), nullptr)));
    queued_.pop_front();
    moved = true;
  }
  if (staged_ != nullptr) {
    const bool copied = BPS_TRY(staged_->step());
    moved = moved || copied;
  }
  if (local_ != nullptr) {
    const bool localMoved = BPS_TRY(local_->step());
    moved = moved || localMoved;
  }
  if (plane_ != nullptr) {
    const bool planeMoved = BPS_TRY(stepDataPlane());
    moved = moved || planeMoved;
  }
  if (!solo_.idle()) moved = BPS_TRY(solo_.step()) || moved;
  moved = retire() || moved;
  if (moved) stallDeadline_ = Deadline::never();
  if (moved && std::exchange(waitReported_, false)) control_.reportWait({});
  return moved;
}

Status CallScheduler::admit(std::unique_ptr<Collective> call) {
  const size_t elementSize = elementBytes(static_cast<DataType>(call->call.type));
  const size_t count = call->call.elementsMoved();
  control_.reportCallsStarted(call->call.number + 1);
  call->chunks = makeChunks(cutter_.next(count, elementSize, call->limits), elementSize);
  call->remaining = call->chunks.size();
  call->onAllRails = !call->chunks.front().usesExchangePath() &&
                     rails_.usesAllRails(count * elementSize, call->limits.targetChunkBytes);
  if (call->deviceScalar != nullptr) std::memcpy(&call->call.scalar, call->deviceScalar, elementSize);
  active_.push_back(std::move(call));
  distributeChunks(*active_.back());
  return {};
}

// Gives every chunk to those who carry it on.
void CallScheduler::distributeChunks(Collective& call) {
  if (staged_ != nullptr) staged_->submit(call);
  if (local_ != nullptr) local_->submit(call);
  if (plane_ != nullptr && rails_.carries(plane_->rail(), call.onAllRails)) plane_->submit(call);
  if (plane_ != nullptr || local_ != nullptr) return;
  for (size_t i = 0; i < call.chunks.size(); ++i) solo_.submit(call, i);
}

// Completes calls in call order.
bool CallScheduler::retire() {
  bool moved = false;
  while (!active_.empty() && active_.front()->remaining == 0) {
    count(*active_.front());
    finish(*active_.front(), Status());
    active_.pop_front();
    moved = true;
  }
  return moved;
}

void CallScheduler::count(const Collective& call) {
  if (traffic_ == nullptr || call.call.byGpuGroups) return;
  traffic_->count(call);
  const Roster& roster = control_.roster();
  if (plane_ == nullptr) return;
  traffic_->countNetwork(call, rails_, roster.ranks[control_.rank()].machine, roster.machines.size());
}

Result<bool> CallScheduler::stepDataPlane() {
  Result<bool> outcome = plane_->step();
  if (outcome.ok()) return outcome;
  if (!plane_->failedEndpoint()) return outcome;  // a disagreement, or a fault of ours: final
  const Roster& roster = control_.roster();
  const size_t failedMember = roster.memberOf(*plane_->failedEndpoint(), plane_->rail());
  if (suspected_[failedMember]) return false;
  suspected_[failedMember] = true;
  const std::string text = fmt::format("connection of {} with {}: {}", roster.rankName(control_.rank()),
                                       roster.memberName(failedMember), outcome.error().message());
  if (connectionError_.empty()) connectionError_ = text;
  control_.suspect(failedMember, text);
  return false;
}

void CallScheduler::reportWait() {
  if (plane_ == nullptr) return;
  const std::optional<EndpointWait> wait = plane_->checkWait();
  if (!wait && !waitReported_) return;
  waitReported_ = wait.has_value();
  const Roster& roster = control_.roster();
  control_.reportWait(
      wait ? MemberWait{wait->call, static_cast<uint32_t>(roster.memberOf(wait->endpoint, plane_->rail()))}
           : MemberWait());
}

Status CallScheduler::failIfWaitingForDeparted() {
  if (active_.empty()) return {};
  if (staged_ != nullptr && staged_->copying()) {  // that takes as long as it takes, and waits for no rank
    stallDeadline_ = Deadline::never();
    return {};
  }
  size_t gone = 0;
  while (gone < suspected_.size() && !control_.hasLeft(gone)) ++gone;
  if (gone == suspected_.size()) return {};
  if (stallDeadline_.at() == Deadline::never().at()) stallDeadline_ = Deadline::in(departedTimeout(control_.roster()));
  if (!stallDeadline_.passed()) return {};
  return failure(Code::kRemote, "{} has left the communicator, {} cannot complete{}{}",
                 control_.roster().memberName(gone), describe(active_.front()->call),
                 connectionError_.empty() ? "" : "; ", connectionError_);
}

void CallScheduler::failAll(const Status& failure) {
  if (staged_ != nullptr) staged_->abandon();
  for (auto* calls : {&active_, &queued_}) {
    for (auto& call : *calls) finish(*call, failure);
    calls->clear();
  }
}

void CallScheduler::finish(Collective& call, const Status& outcome) {
  completed_.fetch_add(1, std::memory_order_release);
  const std::shared_ptr<StreamPosition> position = call.position;
  position->complete(outcome);
}

}  // namespace bps
