// ProgressEngine: moves the calls of one communicator on this rank.
//
// The holder of the progress lock moves the calls: a caller that waits for its call, for as long as polling pays;
// otherwise the progress thread. A thread that releases the lock first arms every connection to wake the progress
// thread, or wakes it.
//
// The thread that issues a call of at most constants::kMaxInlineBytes also starts it, because waking another thread
// takes longer than moving these bytes. The progress thread, or a caller that waits, starts every other call.
//
// Polling lasts as long as a wake-up takes, or not at all if recent waits were longer (spin_budget.h). A caller that
// has used up this budget gives the calls to the progress thread and sleeps until its call has ended. So only the
// progress thread sleeps on connections, and no thread sleeps with the lock.
//
// If a caller waited for the last call as soon as it had issued it, the engine leaves the next call to its caller: it
// neither arms the connections nor wakes the progress thread. The progress thread then checks every millisecond whether
// no caller has come.
//
// Memory ordering: the lock guards everything but the inbox, the atomics and the doorbell. A caller sets callerActive_
// before it takes the lock and clears it before it arms the connections. So a progress thread that wakes up and sees
// callerActive_ may go back to sleep: the caller arms later, and arming finds events that have already come.
#pragma once
#include <atomic>
#include <memory>

#include "src/base/deadline.h"
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
  // `failure` outlives the last end() and submit(). `now` is the clock of the spin budget.
  static Result<std::shared_ptr<ProgressEngine>> create(std::unique_ptr<ProgressWork> work,
                                                        std::shared_ptr<Doorbell> bell, const FirstError& failure,
                                                        SpinBudget::Now now = SpinBudget::systemNow);

  // The thread that makes the first steps of a call: the calling thread, a caller that waits at once (else the progress
  // thread), or always the progress thread. The first two need the lock to be free.
  enum class Start : uint8_t { kHere, kByWaitingCaller, kByProgressThread };
  // Any thread. Takes the call, or returns false if the communicator has ended.
  bool submit(std::unique_ptr<Collective>& call, Start start);
  void wake() override { inbox_.bell().ring(); }
  void progressFor(const StreamEntry& entry) override;
  // True if all calls are complete and the transport has every answer of the service, as long as no call is submitted.
  bool drained() const { return observed_.drained.load() == inbox_.pushed(); }
  // True if a call has come to its place in its stream and has not ended. Any thread.
  bool hasCallsInFlight() const { return observed_.hasCallsInFlight.load(std::memory_order_relaxed); }
  // True once end() has been called, which happens soon after any failure; and whether it ended calls.
  bool hasEnded() const { return state_.load() >= State::kEnded; }
  bool endedWithCalls() const { return state_.load() == State::kEndedWithCalls; }
  // Makes run() return.
  void stop();

  // Called by the progress thread. Moves calls until stop() or a failure, then closes the connections. Returns the
  // failure.
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
  // From now on every event wakes the progress thread. Returns false if an event has come already.
  bool announceIdle() BPS_REQUIRES(progressLock_);
  void clearIdle() BPS_REQUIRES(progressLock_);
  bool mustStop() const { return state_.load(std::memory_order_relaxed) != State::kRunning || failure_.failed(); }

  enum class State : uint8_t { kRunning, kStopping, kEnded, kEndedWithCalls };

  Mutex progressLock_;
  const std::unique_ptr<ProgressWork> work_;
  const FirstError& failure_;
  CallInbox inbox_;
  IdleWaiter idleWaiter_;  // the progress thread calls sleep() without the lock
  SpinBudget spin_ BPS_GUARDED_BY(progressLock_);
  bool lastStepMoved_ BPS_GUARDED_BY(progressLock_) = false;  // the next step may move more without an event
  Status callerError_ BPS_GUARDED_BY(progressLock_);          // the progress thread ends the communicator with it
  struct LeftToCaller {
    bool expected = false;                   // the caller waited for the last call as soon as it had issued it
    bool watched = false;                    // the progress thread checks every millisecond
    Deadline::Clock::time_point issuedAt{};  // of the last call
    uint64_t completedAtCheck = 0;           // calls that had ended at its last check
  };
  LeftToCaller leftToCaller_ BPS_GUARDED_BY(progressLock_);
  std::atomic<bool> callerActive_{false};
  std::atomic<State> state_{State::kRunning};
  struct Observed {  // written with the lock, read by any thread
    std::atomic<bool> hasCallsInFlight{false};
    std::atomic<uint64_t> drained{0};  // calls that had ended when the work was last quiescent
  };
  Observed observed_;
};

}  // namespace bps
