#include "src/comm/progress/call_scheduler.h"

#include <algorithm>
#include <cstring>

#include "cpu_reduce/reduce.h"
#include "src/base/format.h"
#include "src/base/log.h"

namespace bps {
namespace {

// Returns how long a call may make no progress after a rank has left. Data that the rank sent
// before it left may still arrive during this time. A peer may be silent for the same time.
std::chrono::milliseconds departedTimeout(const Roster& roster) {
  return std::chrono::milliseconds(roster.settings.timeoutMs) / 2;
}

constexpr std::chrono::milliseconds kCheckInterval(500), kConnectionErrorInterval(20);
constexpr std::chrono::microseconds kConnectInterval(1000);
// How often the numbers that no call counts are copied to the counters.
constexpr std::chrono::milliseconds kUpdateInterval(100);
// How often a thread looks whether a withheld chunk may start.
constexpr std::chrono::microseconds kWithheldInterval(500);
// How often a thread looks whether a stream has reached a call or has copied: often after something has moved, and more
// rarely while a stream is busy with other work.
constexpr std::chrono::microseconds kMinStreamInterval(20), kMaxStreamInterval(200);

}  // namespace

Result<std::unique_ptr<CallScheduler>> CallScheduler::create(const Session& session, std::unique_ptr<DataPlane> plane,
                                                             ChunkGate* gate) {
  net::Waiter waiter = BPS_TRY(net::Waiter::create(*session.bell));
  Status added;
  if (plane != nullptr)
    plane->forEachComm([&](net::Comm& comm) {
      if (added.ok()) added = waiter.add(comm);
    });
  BPS_TRY(std::move(added));
  return std::unique_ptr<CallScheduler>(new CallScheduler(session, std::move(plane), gate, std::move(waiter)));
}

CallScheduler::CallScheduler(const Session& session, std::unique_ptr<DataPlane> plane, ChunkGate* gate,
                             net::Waiter waiter)
    : session_(session),
      plane_(std::move(plane)),
      gate_(gate),
      waiter_(std::move(waiter)),
      solo_(staged() != nullptr ? static_cast<ChunkBuffers&>(*staged()) : userBuffers_),
      broken_{std::vector<bool>(session.control.roster().members()), {}, 0},
      servers_(session.serverEvents, session.control, session.plan.depth, *session.cutter, plane_.get(), waiter_) {
  waits_.streamInterval = kMinStreamInterval;
}

void CallScheduler::add(std::unique_ptr<Collective> call) {
  if (session_.recorder != nullptr) record(trace::Stage::kSubmitted, *call, trace::nanoseconds(call->submittedAt));
  queued_.push_back(std::move(call));
}

void CallScheduler::record(trace::Stage stage, const Collective& call, uint64_t time) {
  const size_t bytes = call.call.elementsMoved() * elementBytes(static_cast<DataType>(call.call.type));
  session_.recorder->add({time, call.call.number, bytes, 0, trace::kNoPeer, stage, 0});
}

void CallScheduler::recordCopies() {
  for (const auto& call : active_)
    if (call->staging != nullptr && !call->copyRecorded && staged()->copiedOut(*call)) {
      call->copyRecorded = true;
      record(trace::Stage::kCopiedOut, *call);
    }
}

Result<bool> CallScheduler::step() {
  bool moved = false;
  if (gate_ != nullptr) gate_->beginStep();
  BPS_TRY(handleServerEvents());
  moved = BPS_TRY(servers_.step(counts_.begun));
  // Admits calls in call order, which is the same on every rank. A call that waits for its stream
  // delays the calls behind it.
  while (!queued_.empty() && mayBeginCall()) {
    BPS_TRY(admit(std::exchange(queued_.front(), nullptr)));
    queued_.pop_front();
    moved = true;
  }
  if (staged() != nullptr) {
    const bool copied = BPS_TRY(staged()->step());
    moved = moved || copied;
    if (copied && session_.recorder != nullptr) recordCopies();
  }
  if (session_.local != nullptr) {
    const bool localMoved = BPS_TRY(session_.local->step());
    moved = moved || localMoved;
  }
  if (plane_ != nullptr) {
    const bool planeMoved = BPS_TRY(stepDataPlane());
    moved = moved || planeMoved;
  }
  if (!solo_.idle()) moved = BPS_TRY(solo_.step(solo_.oldestRound())) || moved;
  moved = retire() || moved;
  if (gate_ != nullptr && gate_->mayHold()) gate_->endStep(moved, !active_.empty() || !plane_->drained());
  if (!moved) {
    if (waits_.watchdog.takeDumpSignal()) waits_.watchdog.dump(callsInFlight());
    return false;
  }
  waits_.streamInterval = kMinStreamInterval;
  waiter_.noteProgress();
  waits_.watchdog.noteProgress();
  waits_.departedDeadline = Deadline::never();
  if (std::exchange(waits_.reported, false)) session_.control.reportWait({});
  return true;
}

bool CallScheduler::arm() {
  const bool localIdle = session_.local == nullptr || session_.local->prepareToSleep();
  return !waiter_.arm() && localIdle;
}

void CallScheduler::disarm() {
  if (session_.local != nullptr) session_.local->endSleep();
}

std::chrono::microseconds CallScheduler::maxSleep() {
  if (awaitsStream()) {
    return std::exchange(waits_.streamInterval, std::min(2 * waits_.streamInterval, kMaxStreamInterval));
  }
  if (servers_.connecting()) return kConnectInterval;
  const auto most = waiter_.maxSleep(broken_.firstError.empty() ? kCheckInterval : kConnectionErrorInterval);
  return withheld() ? std::min(most, kWithheldInterval) : most;
}

bool CallScheduler::needsPolling() const {
  return awaitsStream() || servers_.connecting() || waiter_.hasPolledComms() || !broken_.firstError.empty() ||
         withheld();
}

CallsInFlight CallScheduler::callsInFlight() const {
  const ControlPlane& control = session_.control;
  return {control.roster().jobId, control.rank(),      active_, queued_.size(), copying(),
          plane_.get(),           session_.local.get()};
}

Status CallScheduler::checkStalls() {
  waits_.watchdog.check(callsInFlight());
  reportWait();
  servers_.checkRates();
  updateCounters();
  return failIfWaitingForDeparted();
}

// Only reads what the holder of the progress lock may read, so the threads that serve metrics cannot do this.
void CallScheduler::updateCounters() {
  CommCounters* const counters = session_.counters;
  if (counters == nullptr || !counts_.nextUpdate.passed()) return;
  counts_.nextUpdate = Deadline::in(kUpdateInterval);
  uint64_t chunks = 0;
  for (const auto& call : active_) chunks += call->remaining;
  counters->chunksInFlight.store(chunks, std::memory_order_relaxed);
  const WaitTimes* const waits = plane_ != nullptr ? plane_->waitTimes() : nullptr;
  if (waits == nullptr) return;
  counters->setWaits(session_.control.roster().machines.size(), [&](size_t m) { return waits->waited(m); });
}

void CallScheduler::close() {
  if (plane_ != nullptr)
    logInfo(Subsystem::kNet, "sent {} messages for {} calls", plane_->messagesSent() - counts_.messagesBefore,
            counts_.completed - counts_.completedBefore);
  if (gate_ != nullptr) gate_->end();
  waiter_.clear();
  plane_.reset();
}

Status CallScheduler::admit(std::unique_ptr<Collective> call) {
  const size_t elementSize = elementBytes(static_cast<DataType>(call->call.type));
  const size_t count = call->call.elementsMoved();
  session_.control.reportCallsStarted(call->call.number + 1);
  if (call->call.number == 0 && plane_ != nullptr) {
    counts_.completedBefore = counts_.completed;
    counts_.messagesBefore = plane_->messagesSent();
  }
  if (session_.recorder != nullptr) record(trace::Stage::kAdmitted, *call);
  call->position->start();
  servers_.beforeBegin(counts_.begun++);
  call->onAllRails = !call->chunks.front().usesExchangePath() &&
                     session_.rails.usesAllRails(count * elementSize, call->limits.targetChunkBytes);
  if (call->deviceScalar != nullptr) std::memcpy(&call->call.scalar, call->deviceScalar, elementSize);
  active_.push_back(std::move(call));
  distributeChunks(*active_.back());
  return {};
}

// Submits the call's chunks to the components that carry them.
void CallScheduler::distributeChunks(Collective& call) {
  if (staged() != nullptr) staged()->submit(call);
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
  MachineTraffic* const traffic = session_.traffic();
  if (traffic == nullptr || call.call.byGpuGroups) return;
  traffic->count(call);
  if (plane_ == nullptr) return;
  traffic->countNetwork(call, session_.rails, session_.self().machine, session_.control.roster().machines.size());
}

Result<bool> CallScheduler::stepDataPlane() {
  Result<bool> outcome = plane_->step();
  if (outcome.ok()) return outcome;
  if (!plane_->failedEndpoint()) return outcome;  // no connection broke, so the failure is final
  const Roster& roster = session_.control.roster();
  const size_t failedMember = roster.memberOf(*plane_->failedEndpoint(), plane_->rail());
  if (broken_.reported[failedMember]) return false;
  broken_.reported[failedMember] = true;
  const std::string text = fmt::format("connection of {} with {}: {}", roster.rankName(session_.control.rank()),
                                       roster.memberName(failedMember), outcome.error().message());
  if (broken_.firstError.empty()) {
    broken_.firstError = text;
    broken_.firstMember = failedMember;
  }
  session_.control.suspect(failedMember, text);
  return false;
}

// The owners keep only the last push of a rank to each parameter, to take it back if the rank is lost. So a push begins
// only after the rank's earlier push to the same parameter has ended.
bool CallScheduler::isSecondPush(const Collective& next) const {
  if (!next.param || !isPush(static_cast<CallOp>(next.call.op))) return false;
  return std::any_of(active_.begin(), active_.end(), [&](const auto& call) {
    return call->param && isPush(static_cast<CallOp>(call->call.op)) && call->param->param == next.param->param;
  });
}

bool CallScheduler::mayBeginCall() const {
  const Collective& next = *queued_.front();
  return next.position->mayStart() && servers_.mayBegin(counts_.begun) && !isSecondPush(next);
}

Status CallScheduler::handleServerEvents() {
  while (servers_.eventsPending()) {
    if (session_.control.roster().settings.parameters) {
      loseOwner(servers_.takeOldest());
      continue;
    }
    // A lane that is made now carries host memory only.
    if (staged() != nullptr && servers_.nextChangesLane())
      staged()->excludeFromGpu(session_.control.roster().machines.size() + servers_.nextServer());
    const ServerEvent event = BPS_TRY(servers_.handleOldest(!queued_.empty() || !active_.empty()));
    if (session_.counters != nullptr) session_.counters->servers.note(event);
    const size_t member = session_.control.roster().ranks.size() + event.server;
    if (event.kind == ServerEvent::Kind::kJoining) broken_.reported[member] = false;
    if (event.kind != ServerEvent::Kind::kLost) continue;
    broken_.reported[member] = true;
    if (broken_.firstMember == member) broken_.firstError.clear();
  }
  return {};
}

// Asynchronous training goes on without a rank or server.
void CallScheduler::loseOwner(const ServerEvent& event) {
  const Roster& roster = session_.control.roster();
  const bool rank = event.kind == ServerEvent::Kind::kRankLost;
  const size_t member = rank ? event.server : roster.ranks.size() + event.server;
  broken_.reported[member] = true;
  if (broken_.firstMember == member) broken_.firstError.clear();
  if (session_.counters != nullptr && !rank) session_.counters->servers.note(event);
  logWarn(Subsystem::kColl, "{} is lost, and the training goes on without it: {}", roster.memberName(member),
          event.text);
  if (plane_ != nullptr)
    plane_->loseOwner(roster.endpointOf(member), [this](net::Comm& comm) { waiter_.remove(comm); });
}

void CallScheduler::reportWait() {
  if (plane_ == nullptr) return;
  const std::optional<EndpointWait> wait = plane_->checkWait();
  if (!wait && !waits_.reported) return;
  waits_.reported = wait.has_value();
  const Roster& roster = session_.control.roster();
  session_.control.reportWait(
      wait ? MemberWait{wait->call, static_cast<uint32_t>(roster.memberOf(wait->endpoint, plane_->rail()))}
           : MemberWait());
}

Status CallScheduler::failIfWaitingForDeparted() {
  if (active_.empty() || session_.control.roster().settings.parameters) return {};
  if (copying()) {  // a copy out waits for no rank, and StagedBuffers limits its time
    waits_.departedDeadline = Deadline::never();
    return {};
  }
  size_t gone = 0;
  while (gone < broken_.reported.size() && !session_.control.hasLeft(gone)) ++gone;
  if (gone == broken_.reported.size()) return {};
  if (waits_.departedDeadline.at() == Deadline::never().at())
    waits_.departedDeadline = Deadline::in(departedTimeout(session_.control.roster()));
  if (!waits_.departedDeadline.passed()) return {};
  return failure(Code::kRemote, "{} has left the communicator, {} cannot complete{}{}",
                 session_.control.roster().memberName(gone), describe(active_.front()->call),
                 broken_.firstError.empty() ? "" : "; ", broken_.firstError);
}

void CallScheduler::failAll(const Status& failure) {
  for (auto* calls : {&active_, &queued_}) {
    for (auto& call : *calls) finish(*call, failure);
    calls->clear();
  }
}

void CallScheduler::finish(Collective& call, const Status& outcome) {
  ++counts_.completed;
  if (session_.recorder != nullptr) record(outcome.ok() ? trace::Stage::kComplete : trace::Stage::kFailed, call);
  countEnd(call, outcome.ok());
  const std::shared_ptr<StreamPosition> position = call.position;
  position->complete(outcome);
}

}  // namespace bps
