// ProgressEngine: moves the calls of one communicator on this rank.
//
// The holder of the progress lock moves the calls: a caller that waits for its call, for as long as polling pays;
// otherwise the progress thread. Whoever releases the lock leaves every connection armed to wake the progress thread,
// or wakes it.
//
// A call of at most constants::kMaxInlineBytes is started by the thread that issues it, since waking another thread
// takes longer than these bytes do. Everything else is started by the progress thread or by the caller that waits.
//
// Polling lasts as long as a wake-up takes, or not at all if recent waits were longer (spin_budget.h). A caller that
// has spent this budget gives the calls to the progress thread and sleeps until its own has ended. So only the progress
// thread sleeps on connections, and nobody sleeps with the lock.
//
// If the last call was waited for as soon as it was issued, the next small one is left to its caller without arming the
// connections. The progress thread then looks every millisecond whether a call has been left to nobody.
//
// Memory ordering: the lock guards everything but the inbox, the atomics and the doorbell. A caller sets callerActive_
// before it takes the lock and clears it before it arms the connections. So a progress thread that is woken and sees
// callerActive_ may go back to sleep: the caller still has to arm, and arming finds what has come.
#pragma once
#include <atomic>
#include <memory>

#include "src/base/mutex.h"
#include "src/base/process/spin_budget.h"
#include "src/comm/call/host_stream.h"
#include "src/comm/failure/first_error.h"
#include "src/comm/progress/call_inbox.h"
#include "src/comm/progress/idle_waiter.h"
#include "src/comm/progress/progress_work.h"

namespace bps {

class ProgressEngine final : public StreamWorker {
 public:
  // `failure` outlives end(). `now`: the clock of the spin budget.
  static Result<std::shared_ptr<ProgressEngine>> create(std::unique_ptr<ProgressWork> work,
                                                        std::shared_ptr<Doorbell> bell, const FirstError& failure,
                                                        SpinBudget::Now now = SpinBudget::systemNow);

  // Any thread. Takes over the call; false if the communicator has ended. `startHere`: the first steps are made before
  // this returns, if nobody holds the lock.
  bool submit(std::unique_ptr<Collective>& call, bool startHere);
  void wake() override { inbox_.bell().ring(); }
  void progressFor(const StreamEntry& entry) override;
  // True, if nothing is submitted meanwhile: all calls are complete and every answer of the service is on its way.
  bool drained() const { return drained_.load() == inbox_.pushed(); }
  // A call has come to its place in its stream and has not ended. Any thread.
  bool hasCallsInFlight() const { return hasCallsInFlight_.load(std::memory_order_relaxed); }
  // end() has been called, soon after any failure; and whether it ended calls.
  bool hasEnded() const { return state_.load() >= State::kEnded; }
  bool endedWithCalls() const { return state_.load() == State::kEndedWithCalls; }
  // Makes run() return.
  void stop();

  // The progress thread: moves calls until stop() or a failure, which it returns. Closes the connections at the end.
  Status run();
  // After run(): ends all calls with this failure.
  void end(const Status& failure);

 private:
  ProgressEngine(std::unique_ptr<ProgressWork> work, std::shared_ptr<Doorbell> bell, const FirstError& failure,
                 IdleWaiter waiter, SpinBudget::Now now)
      : work_(std::move(work)),
        failure_(failure),
        inbox_(std::move(bell)),
        idleWaiter_(std::move(waiter)),
        spin_(SpinBudget::kDefault, now) {}
  Result<bool> step() BPS_REQUIRES(progressLock_);
  Status loop() BPS_REQUIRES(progressLock_);
  Status sleep() BPS_REQUIRES(progressLock_);
  std::chrono::microseconds checkInterval() BPS_REQUIRES(progressLock_);
  template <class F>
  void moveAsCaller(F work) BPS_REQUIRES(progressLock_);
  void handOver() BPS_REQUIRES(progressLock_);
  // Whatever comes from now on wakes the progress thread. False: something has come already.
  bool announceIdle() BPS_REQUIRES(progressLock_);
  void clearIdle() BPS_REQUIRES(progressLock_);
  bool mustStop() const { return state_.load(std::memory_order_relaxed) != State::kRunning || failure_.failed(); }

  enum class State : uint8_t { kRunning, kStopping, kEnded, kEndedWithCalls };

  Mutex progressLock_;
  const std::unique_ptr<ProgressWork> work_;
  const FirstError& failure_;
  CallInbox inbox_;
  IdleWaiter idleWaiter_;  // watchConnections() with the lock, sleep() by the progress thread without it
  SpinBudget spin_ BPS_GUARDED_BY(progressLock_);
  bool lastStepMoved_ BPS_GUARDED_BY(progressLock_) = false;  // nothing wakes anybody for what the next step can do
  Status callerError_ BPS_GUARDED_BY(progressLock_);          // the progress thread ends the communicator with it
  struct LeftToCaller {
    bool expected = false;          // the last call was waited for as soon as it was issued
    bool watched = false;           // the progress thread looks every millisecond
    uint64_t completedAtCheck = 0;  // calls that had ended when it last looked
  };
  LeftToCaller leftToCaller_ BPS_GUARDED_BY(progressLock_);
  std::atomic<bool> callerActive_{false};
  std::atomic<State> state_{State::kRunning};
  std::atomic<bool> hasCallsInFlight_{false};
  std::atomic<uint64_t> drained_{0};
};

}  // namespace bps
