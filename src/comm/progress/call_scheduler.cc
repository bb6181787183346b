#include "src/comm/progress/call_scheduler.h"

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

constexpr std::chrono::milliseconds kCheckInterval(500), kConnectionErrorInterval(20);
constexpr std::chrono::microseconds kCopyPollInterval(20);

}  // namespace

Result<std::unique_ptr<CallScheduler>> CallScheduler::create(const Session& session, std::unique_ptr<DataPlane> plane) {
  net::Waiter waiter = BPS_TRY(net::Waiter::create(*session.bell));
  Status added;
  if (plane != nullptr)
    plane->forEachComm([&](net::Comm& comm) {
      if (added.ok()) added = waiter.add(comm);
    });
  BPS_TRY(std::move(added));
  return std::unique_ptr<CallScheduler>(new CallScheduler(session, std::move(plane), std::move(waiter)));
}

CallScheduler::CallScheduler(const Session& session, std::unique_ptr<DataPlane> plane, net::Waiter waiter)
    : session_(session),
      plane_(std::move(plane)),
      waiter_(std::move(waiter)),
      solo_(session.staged != nullptr ? static_cast<ChunkBuffers&>(*session.staged) : userBuffers_),
      cutter_(session.plan.weights, session.plan.limits),
      suspected_(session.control->roster().members()) {}

Result<bool> CallScheduler::step() {
  bool moved = false;
  // In call order: a call that waits for another stream's buffers holds up those behind it, on every rank alike.
  while (!queued_.empty() && queued_.front()->position->mayStart()) {
    BPS_TRY(admit(std::exchange(queued_.front(), nullptr)));
    queued_.pop_front();
    moved = true;
  }
  if (session_.staged != nullptr) {
    const bool copied = BPS_TRY(session_.staged->step());
    moved = moved || copied;
  }
  if (session_.local != nullptr) {
    const bool localMoved = BPS_TRY(session_.local->step());
    moved = moved || localMoved;
  }
  if (plane_ != nullptr) {
    const bool planeMoved = BPS_TRY(stepDataPlane());
    moved = moved || planeMoved;
  }
  if (!solo_.idle()) moved = BPS_TRY(solo_.step()) || moved;
  moved = retire() || moved;
  if (!moved) return false;
  waiter_.noteProgress();
  stallDeadline_ = Deadline::never();
  if (std::exchange(waitReported_, false)) session_.control->reportWait({});
  return true;
}

bool CallScheduler::arm() {
  const bool localIdle = session_.local == nullptr || session_.local->prepareToSleep();
  return !waiter_.arm() && localIdle;
}

void CallScheduler::disarm() {
  if (session_.local != nullptr) session_.local->endSleep();
}

// Nothing tells of the end of a copy to or from a device, which lasts tens of microseconds.
std::chrono::microseconds CallScheduler::maxSleep() {
  if (copying()) return kCopyPollInterval;
  return waiter_.maxSleep(connectionError_.empty() ? kCheckInterval : kConnectionErrorInterval);
}

bool CallScheduler::needsPolling() const { return copying() || waiter_.hasPolledComms() || !connectionError_.empty(); }

Status CallScheduler::checkStalls() {
  reportWait();
  return failIfWaitingForDeparted();
}

void CallScheduler::close() {
  waiter_.clear();
  plane_.reset();
}

Status CallScheduler::admit(std::unique_ptr<Collective> call) {
  const size_t elementSize = elementBytes(static_cast<DataType>(call->call.type));
  const size_t count = call->call.elementsMoved();
  session_.control->reportCallsStarted(call->call.number + 1);
  call->chunks = makeChunks(cutter_.next(count, elementSize, call->limits), elementSize);
  call->remaining = call->chunks.size();
  call->onAllRails = !call->chunks.front().usesExchangePath() &&
                     session_.rails.usesAllRails(count * elementSize, call->limits.targetChunkBytes);
  if (call->deviceScalar != nullptr) std::memcpy(&call->call.scalar, call->deviceScalar, elementSize);
  active_.push_back(std::move(call));
  distributeChunks(*active_.back());
  return {};
}

// Gives every chunk to those who carry it on.
void CallScheduler::distributeChunks(Collective& call) {
  if (session_.staged != nullptr) session_.staged->submit(call);
  if (session_.local != nullptr) session_.local->submit(call);
  if (plane_ != nullptr && session_.rails.carries(plane_->rail(), call.onAllRails)) plane_->submit(call);
  if (plane_ != nullptr || session_.local != nullptr) return;
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
  if (session_.traffic == nullptr || call.call.byGpuGroups) return;
  session_.traffic->count(call);
  const Roster& roster = session_.control->roster();
  if (plane_ == nullptr) return;
  session_.traffic->countNetwork(call, session_.rails, roster.ranks[session_.control->rank()].machine,
                                 roster.machines.size());
}

Result<bool> CallScheduler::stepDataPlane() {
  Result<bool> outcome = plane_->step();
  if (outcome.ok()) return outcome;
  if (!plane_->failedEndpoint()) return outcome;  // a disagreement, or a fault of ours: final
  const Roster& roster = session_.control->roster();
  const size_t failedMember = roster.memberOf(*plane_->failedEndpoint(), plane_->rail());
  if (suspected_[failedMember]) return false;
  suspected_[failedMember] = true;
  const std::string text = fmt::format("connection of {} with {}: {}", roster.rankName(session_.control->rank()),
                                       roster.memberName(failedMember), outcome.error().message());
  if (connectionError_.empty()) connectionError_ = text;
  session_.control->suspect(failedMember, text);
  return false;
}

void CallScheduler::reportWait() {
  if (plane_ == nullptr) return;
  const std::optional<EndpointWait> wait = plane_->checkWait();
  if (!wait && !waitReported_) return;
  waitReported_ = wait.has_value();
  const Roster& roster = session_.control->roster();
  session_.control->reportWait(
      wait ? MemberWait{wait->call, static_cast<uint32_t>(roster.memberOf(wait->endpoint, plane_->rail()))}
           : MemberWait());
}

Status CallScheduler::failIfWaitingForDeparted() {
  if (active_.empty()) return {};
  if (session_.staged != nullptr &&
      session_.staged->copying()) {  // that takes as long as it takes, and waits for no rank
    stallDeadline_ = Deadline::never();
    return {};
  }
  size_t gone = 0;
  while (gone < suspected_.size() && !session_.control->hasLeft(gone)) ++gone;
  if (gone == suspected_.size()) return {};
  if (stallDeadline_.at() == Deadline::never().at())
    stallDeadline_ = Deadline::in(departedTimeout(session_.control->roster()));
  if (!stallDeadline_.passed()) return {};
  return failure(Code::kRemote, "{} has left the communicator, {} cannot complete{}{}",
                 session_.control->roster().memberName(gone), describe(active_.front()->call),
                 connectionError_.empty() ? "" : "; ", connectionError_);
}

void CallScheduler::failAll(const Status& failure) {
  if (session_.staged != nullptr) session_.staged->abandon();
  for (auto* calls : {&active_, &queued_}) {
    for (auto& call : *calls) finish(*call, failure);
    calls->clear();
  }
}

void CallScheduler::finish(Collective& call, const Status& outcome) {
  ++completed_;
  const std::shared_ptr<StreamPosition> position = call.position;
  position->complete(outcome);
}

}  // namespace bps
