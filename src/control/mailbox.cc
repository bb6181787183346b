#include "src/control/mailbox.h"

#include "src/base/format.h"

namespace bps {
namespace {

// The time at which a caller stops waiting for the control thread. The ControlNode ends every wait at the deadline,
// with a better error text. The caller waits 1.5 s longer and gives up only if the control thread hangs.
Deadline::Clock::time_point graceEnd(Deadline deadline) {
  constexpr std::chrono::milliseconds kGrace(1500);
  return deadline.at() == Deadline::never().at() ? deadline.at() : deadline.at() + kGrace;
}

bool passed(Deadline::Clock::time_point at) { return Deadline::Clock::now() >= at; }

}  // namespace

void Mailbox::post(Call call) {
  {
    MutexLock lock(mutex_);
    calls_.push_back(std::move(call));
  }
  bell_.ring();
}

Status Mailbox::waitJoin(Deadline deadline, Roster& roster) {
  const auto end = graceEnd(deadline);
  MutexLock lock(mutex_);
  while (!roster_ && failure_.ok() && !interrupted_ && !passed(end)) changed_.waitUntil(mutex_, end);
  if (!failure_.ok()) return failure_.clone();
  if (interrupted_) return {Code::kInvalidUsage, "aborted"};
  if (!roster_) return {Code::kTimeout, "the control thread does not answer"};
  roster = *roster_;
  return {};
}

Result<std::vector<Blob>> Mailbox::runOp(ControlOp kind, std::vector<Blob> blobs, Deadline deadline) {
  {
    MutexLock lock(mutex_);
    answers_[static_cast<size_t>(kind)].reset();
  }
  post([kind, deadline, blobs = std::move(blobs)](ControlNode& node) { node.startOp(kind, blobs, deadline); });
  MutexLock lock(mutex_);
  const auto end = graceEnd(roster_ ? controlOpDeadline(kind, deadline, *roster_) : deadline);
  std::optional<Result<std::vector<Blob>>>& answer = answers_[static_cast<size_t>(kind)];
  while (!answer && failure_.ok() && !interrupted_ && !passed(end)) changed_.waitUntil(mutex_, end);
  if (answer && (answer->ok() || failure_.ok())) return std::move(*answer);
  if (!failure_.ok()) return failure_.clone();
  if (interrupted_) return Status(Code::kInvalidUsage, "aborted");
  return failure(Code::kTimeout, "{}: the control thread does not answer", controlOpName(kind));
}

void Mailbox::waitLeave(Deadline deadline) {
  MutexLock lock(mutex_);
  if (!roster_) return;
  leaving_ = true;
  calls_.emplace_back([](ControlNode& node) { node.leave(); });
  bell_.ring();
  while (!leaveDone_ && failure_.ok() && !interrupted_ && !deadline.passed()) changed_.waitUntil(mutex_, deadline.at());
}

bool Mailbox::hasLeft(size_t member) {
  MutexLock lock(mutex_);
  return hubLeft_ || (member < left_.size() && left_[member]);
}

void Mailbox::interrupt() {
  MutexLock lock(mutex_);
  interrupted_ = true;
  changed_.notifyAll();
}

void Mailbox::stop() {
  MutexLock lock(mutex_);
  stopped_ = true;
  bell_.ring();
}

// takeCalls() must clear the doorbell before it takes the calls. A call that is posted after the clearing rings the
// doorbell again. A call that was posted before the clearing is taken now.
std::vector<Mailbox::Call> Mailbox::takeCalls(bool& stopped) {
  bell_.clear();
  MutexLock lock(mutex_);
  stopped = stopped_;
  return std::exchange(calls_, {});
}

Heartbeat Mailbox::heartbeat() {
  MutexLock lock(mutex_);
  return {callsStarted_.load(std::memory_order_relaxed), wait_.call, wait_.member};
}

void Mailbox::joined(const Roster& roster) {
  MutexLock lock(mutex_);
  roster_ = roster;
  left_.resize(roster.members());
  changed_.notifyAll();
}

void Mailbox::answered(ControlOp kind, Result<std::vector<Blob>> blobs) {
  MutexLock lock(mutex_);
  answers_[static_cast<size_t>(kind)] = std::move(blobs);
  changed_.notifyAll();
}

void Mailbox::failed(const Status& failure) {
  {
    MutexLock lock(mutex_);
    if (!failure_.ok()) return;
    failure_ = failure.clone();
    changed_.notifyAll();
    if (!roster_ || leaving_) return;  // join() itself returns the failure, and leave() ignores failures
  }
  if (sinks_.failure) sinks_.failure(failure.clone());
}

void Mailbox::memberLeft(size_t member) {
  MutexLock lock(mutex_);
  if (member < left_.size()) left_[member] = true;
}

void Mailbox::hubLeft() {
  MutexLock lock(mutex_);
  hubLeft_ = true;
}

void Mailbox::leaveDone() {
  MutexLock lock(mutex_);
  leaveDone_ = true;
  changed_.notifyAll();
}

}  // namespace bps
