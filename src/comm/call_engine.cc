#include "src/comm/call_engine.h"

#include <cstring>

#include "cpu_reduce/reduce.h"
#include "src/base/format.h"

namespace bps {
namespace {

// How long a call may stand still once a rank has said goodbye: what that rank sent before is still on its way. As long
// as a peer may be silent.
std::chrono::milliseconds departedPatience(const Roster& roster) {
  return std::chrono::milliseconds(roster.settings.timeoutMs) / 2;
}

}  // namespace

CallEngine::CallEngine(ControlPlane& control, const JobPlan& plan, const Carriers& carriers)
    : control_(control),
      rails_(carriers.rails),
      plane_(carriers.plane),
      local_(carriers.local),
      traffic_(carriers.traffic),
      staged_(carriers.staged),
      solo_(staged_ != nullptr ? static_cast<ChunkBuffers&>(*staged_) : userBuffers_),
      cutter_(plan.weights, plan.limits),
      suspected_(control.roster().members()) {}

Result<bool> CallEngine::step() {
  bool moved = false;
  // In call order: a call that waits for another stream's buffers holds up those behind it, on every rank alike.
  while (!queued_.empty() && queued_.front()->place->mayStart()) {
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
    const bool planeMoved = BPS_TRY(stepPlane());
    moved = moved || planeMoved;
  }
  if (!solo_.idle()) moved = BPS_TRY(solo_.step()) || moved;
  moved = retire() || moved;
  if (moved) standstill_ = Deadline::never();
  if (moved && std::exchange(waits_, false)) control_.noteWait({});
  return moved;
}

Status CallEngine::admit(std::unique_ptr<Collective> call) {
  const size_t elementSize = elementBytes(static_cast<DataType>(call->call.type));
  const size_t count = call->call.carried();
  control_.noteBegun(call->call.number + 1);
  call->chunks = chunksOf(cutter_.next(count, elementSize, call->limits), elementSize);
  call->remaining = call->chunks.size();
  call->spread = !call->chunks.front().direct() && rails_.spreads(count * elementSize, call->limits.unitBytes);
  if (call->deviceScalar != nullptr) std::memcpy(&call->call.scalar, call->deviceScalar, elementSize);
  active_.push_back(std::move(call));
  spread(*active_.back());
  return {};
}

// Gives every chunk to those who carry it on.
void CallEngine::spread(Collective& call) {
  if (staged_ != nullptr) staged_->submit(call);
  if (local_ != nullptr) local_->submit(call);
  if (plane_ != nullptr && rails_.carries(plane_->rail(), call.spread)) plane_->submit(call);
  if (plane_ != nullptr || local_ != nullptr) return;
  for (size_t i = 0; i < call.chunks.size(); ++i) solo_.submit(call, i);
}

// Completes calls in call order.
bool CallEngine::retire() {
  bool moved = false;
  while (!active_.empty() && active_.front()->remaining == 0) {
    count(*active_.front());
    finish(*active_.front(), Status());
    active_.pop_front();
    moved = true;
  }
  return moved;
}

void CallEngine::count(const Collective& call) {
  if (traffic_ == nullptr || call.call.byTeams) return;
  traffic_->count(call);
  const Roster& roster = control_.roster();
  if (plane_ == nullptr) return;
  traffic_->countNetwork(call, rails_, roster.ranks[control_.rank()].machine, roster.machines.size());
}

Result<bool> CallEngine::stepPlane() {
  Result<bool> outcome = plane_->step();
  if (outcome.ok()) return outcome;
  if (!plane_->culprit()) return outcome;  // a disagreement, or a fault of ours: final
  const Roster& roster = control_.roster();
  const size_t culprit = roster.memberOf(*plane_->culprit(), plane_->rail());
  if (suspected_[culprit]) return false;
  suspected_[culprit] = true;
  const std::string text = fmt::format("connection of {} with {}: {}", roster.rankName(control_.rank()),
                                       roster.memberName(culprit), outcome.error().message());
  if (trouble_.empty()) trouble_ = text;
  control_.suspect(culprit, text);
  return false;
}

void CallEngine::noteWait() {
  if (plane_ == nullptr) return;
  const std::optional<LastingWait> wait = plane_->watch();
  if (!wait && !waits_) return;
  waits_ = wait.has_value();
  const Roster& roster = control_.roster();
  control_.noteWait(wait ? Wait{wait->call, static_cast<uint32_t>(roster.memberOf(wait->endpoint, plane_->rail()))}
                         : Wait());
}

Status CallEngine::checkDeparted() {
  if (active_.empty()) return {};
  if (staged_ != nullptr && staged_->copying()) {  // that takes as long as it takes, and waits for no rank
    standstill_ = Deadline::never();
    return {};
  }
  size_t gone = 0;
  while (gone < suspected_.size() && !control_.hasLeft(gone)) ++gone;
  if (gone == suspected_.size()) return {};
  if (standstill_.at() == Deadline::never().at()) standstill_ = Deadline::in(departedPatience(control_.roster()));
  if (!standstill_.passed()) return {};
  return failure(Code::kRemote, "{} has left the communicator, {} cannot complete{}{}",
                 control_.roster().memberName(gone), describe(active_.front()->call), trouble_.empty() ? "" : "; ",
                 trouble_);
}

void CallEngine::failAll(const Status& failure) {
  if (staged_ != nullptr) staged_->abandon();
  for (auto* calls : {&active_, &queued_}) {
    for (auto& call : *calls) finish(*call, failure);
    calls->clear();
  }
}

void CallEngine::finish(Collective& call, const Status& outcome) {
  completed_.fetch_add(1, std::memory_order_release);
  const std::shared_ptr<StreamPlace> place = call.place;
  place->complete(outcome);
}

}  // namespace bps
