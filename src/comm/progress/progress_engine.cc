#include "src/comm/progress/progress_engine.h"

#include <sched.h>

#include "src/base/guard.h"

namespace bps {
namespace {

// The first step takes the call from the inbox. The second step handles data that arrived for the
// call earlier.
constexpr int kInlineSteps = 2;
// The interval at which the progress thread checks for stalls.
constexpr std::chrono::milliseconds kCheckInterval(500);
// The interval at which the progress thread checks whether a caller moves the call that the engine
// left to the caller.
constexpr std::chrono::milliseconds kLeftCheckInterval(1);
// A caller "waits at once" if it begins to wait within this time after it has issued a call.
constexpr std::chrono::microseconds kAtOnce(100);

}  // namespace

Result<std::shared_ptr<ProgressEngine>> ProgressEngine::create(std::unique_ptr<ProgressWork> work,
                                                               std::shared_ptr<Doorbell> bell,
                                                               const FirstError& failure, SpinBudget::Now now) {
  IdleWaiter waiter = BPS_TRY(IdleWaiter::create(*bell, work->fd()));
  return std::shared_ptr<ProgressEngine>(
      new ProgressEngine(std::move(work), std::move(bell), failure, std::move(waiter), now));
}

bool ProgressEngine::submit(std::unique_ptr<Collective>& call, Start start) {
  if (!inbox_.push(call)) return false;
  if (start == Start::kByProgressThread || !progressLock_.tryLock()) {
    inbox_.wake();
    return true;
  }
  if (!work_->quiescent()) leftToCaller_.expected = false;  // no caller has waited for the previous call
  const bool left = leftToCaller_.expected && leftToCaller_.watched;
  if (start == Start::kHere) {
    moveAsCaller([&]() -> Status {
      progressLock_.assertHeld();
      for (int i = 0; i < kInlineSteps; ++i)
        if (!BPS_TRY(step()) || left) break;
      return {};
    });
    if (!left || !callerError_.ok() || !inbox_.prepareToSleep() || mustStop()) handOver();
  } else if (!left || mustStop()) {
    wake();
  }
  if (leftToCaller_.expected && !leftToCaller_.watched) wake();
  leftToCaller_.issuedAt = Deadline::Clock::now();
  progressLock_.unlock();
  return true;
}

void ProgressEngine::progressFor(const StreamEntry& entry) {
  if (callerActive_.exchange(true)) return;  // the active caller or, later, the progress thread moves this call too
  progressLock_.lock();                      // the progress thread releases the lock after its current step
  moveAsCaller([&]() -> Status {
    progressLock_.assertHeld();
    leftToCaller_.expected = Deadline::Clock::now() - leftToCaller_.issuedAt < kAtOnce;
    ++leftToCaller_.waits;
    BPS_TRY(idleWaiter_.watchConnections(false));
    while (!entry.done.load(std::memory_order_acquire) && !mustStop()) {
      if (!BPS_TRY(step())) BPS_TRY(pollOrSleep());
    }
    return {};
  });
  callerActive_.store(false);
  handOver();
  progressLock_.unlock();
}

template <class F>
void ProgressEngine::moveAsCaller(F work) {
  if (mustStop() || !callerError_.ok()) return;
  clearIdle();
  callerError_ = guarded(work);
}

Status ProgressEngine::pollOrSleep() {
  if (!spin_.consume()) return sleepAsCaller();
  work_->selectNeeded();
  ::sched_yield();
  return {};
}

// Sleeps with the lock. Every other thread that wants the lock either leaves its work to this caller and rings the
// doorbell, or waits until this caller's call has ended.
Status ProgressEngine::sleepAsCaller() {
  BPS_TRY(work_->checkStalls());
  const auto maxSleep = std::min<std::chrono::microseconds>(kCheckInterval, work_->maxSleep());
  Status slept = armForSleep() ? work_->collectEvents(maxSleep) : Status();
  clearIdle();
  return slept;
}

void ProgressEngine::handOver() {
  if (state_.load() != State::kRunning) return;
  const bool quiescent = work_->quiescent();
  if (quiescent) observed_.drained.store(work_->completed());
  const bool mustPoll = !work_->idle() && (lastStepMoved_ || work_->needsPolling());
  if (announceIdle() && callerError_.ok() && !mustPoll) return;
  wake();
}

bool ProgressEngine::announceIdle() {
  const bool nothingCame = armForSleep();
  return idleWaiter_.watchConnections(!work_->idle()).ok() && nothingCame;
}

bool ProgressEngine::armForSleep() {
  bool nothingCame = inbox_.prepareToSleep();
  if (!work_->idle()) nothingCame = work_->arm() && nothingCame;  // without a call, no data from peers is needed
  return nothingCame && !mustStop();
}

void ProgressEngine::clearIdle() {
  inbox_.endSleep();
  work_->disarm();
}

void ProgressEngine::stop() {
  State running = State::kRunning;
  state_.compare_exchange_strong(running, State::kStopping);
  wake();
}

Status ProgressEngine::run() {
  MutexLock lock(progressLock_);
  Status ended = guarded([this] {
    progressLock_.assertHeld();
    return loop();
  });
  state_.store(State::kStopping);
  work_->close();
  return ended;
}

Status ProgressEngine::loop() {
  while (state_.load() == State::kRunning) {
    if (failure_.failed()) return failure_.get();
    BPS_TRY(std::exchange(callerError_, Status()));
    if (!callerActive_.load()) {
      if (leftToCaller_.watched && !work_->quiescent()) leftToCaller_.expected = false;  // no caller moves the call
      if (BPS_TRY(step())) continue;
      if (work_->quiescent()) observed_.drained.store(work_->completed());
      if (!work_->idle() && spin_.consume()) {
        work_->selectNeeded();
        ::sched_yield();
        continue;
      }
    }
    BPS_TRY(sleep());
  }
  return {};
}

// If a caller is about to take the lock, this function does not arm the connections.
Status ProgressEngine::sleep() {
  bool maySleep = true;
  std::chrono::microseconds maxSleep = kCheckInterval;
  if (!callerActive_.load()) {
    BPS_TRY(work_->checkStalls());
    maxSleep = std::min(maxSleep, work_->maxSleep());
    maySleep = announceIdle();
  }
  if (maySleep) BPS_TRY(sleepWithoutLock(maxSleep));
  if (callerActive_.load()) return {};
  clearIdle();
  return work_->collectEvents(std::chrono::microseconds(0));
}

// Goes back to sleep while another thread moves the calls. A thread that is about to release the lock may no longer see
// a call that has just woken this thread, so this thread then tries again soon.
Status ProgressEngine::sleepWithoutLock(std::chrono::microseconds maxSleep) {
  progressLock_.unlock();
  while (true) {
    const auto most =
        leftToCaller_.watched ? std::min<std::chrono::microseconds>(maxSleep, kLeftCheckInterval) : maxSleep;
    Result<bool> woken = idleWaiter_.sleep(most);
    if (!woken.ok() || mustStop()) {
      progressLock_.lock();
      return std::move(woken).status();
    }
    checkWaits(std::move(woken).value());
    if (callerActive_.load()) continue;
    if (progressLock_.tryLock()) return {};
    maxSleep = kLeftCheckInterval;
  }
}

void ProgressEngine::checkWaits(bool woken) {
  const uint64_t waits = leftToCaller_.waits;
  if (waits == std::exchange(leftToCaller_.waitsAtCheck, waits) && !woken) leftToCaller_.expected = false;
  leftToCaller_.watched = leftToCaller_.expected.load();
}

Result<bool> ProgressEngine::step() {
  bool moved = inbox_.takeAll([this](std::unique_ptr<Collective> call) { work_->add(std::move(call)); });
  moved = BPS_TRY(work_->step()) || moved;
  if (moved) spin_.onProgress();
  lastStepMoved_ = moved;
  observed_.hasCallsInFlight.store(work_->hasCallsInFlight(), std::memory_order_relaxed);
  return moved;
}

void ProgressEngine::end(const Status& failure) {
  MutexLock lock(progressLock_);
  for (auto& call : inbox_.close())
    if (call != nullptr) work_->add(std::move(call));  // null if memory ran out between the inbox and the work
  const bool calls = work_->completed() != inbox_.pushed();
  work_->failAll(failure);
  state_.store(calls ? State::kEndedWithCalls : State::kEnded);
}

}  // namespace bps
