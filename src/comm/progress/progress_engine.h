// ProgressEngine: moves the calls of one communicator on this rank.
//
// The holder of the progress lock moves the calls. A caller that waits for its call holds the lock
// until the call has ended; otherwise the progress thread holds the lock. Before a thread releases
// the lock, it arms every connection to wake the progress thread, or it wakes the progress thread
// itself.
//
// The thread that issues a call of at most constants::kMaxInlineBytes also starts it, because
// waking another thread takes longer than moving these bytes. The progress thread or a caller that
// waits starts every larger call.
//
// A thread polls for as long as a wake-up takes. A thread does not poll at all if recent waits were
// longer than a wake-up (spin_budget.h). A caller that has used up this polling time sleeps until a
// connection has an event, and it keeps the lock. So an event wakes one thread, which completes the
// call. The progress thread sleeps without the lock.
//
// If a caller waited for the last call immediately after issuing it, the engine leaves the next
// call to its caller. The engine then neither arms the connections nor wakes the progress thread.
// The progress thread checks every millisecond whether the call moves, and moves the call itself if
// no caller moves it.
//
// Memory ordering: the lock guards everything except the inbox, the atomics and the doorbell. A
// caller sets callerActive_ before it takes the lock and clears callerActive_ before it arms the
// connections. So a progress thread that wakes up and sees callerActive_ goes back to sleep, without
// the lock. The caller arms the connections later, and arming finds events that have already
// occurred.
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
  // `failure` must exist until the last end() or submit() has returned. `now` is the clock of the
  // spin budget.
  static Result<std::shared_ptr<ProgressEngine>> create(std::unique_ptr<ProgressWork> work,
                                                        std::shared_ptr<Doorbell> bell, const FirstError& failure,
                                                        SpinBudget::Now now = SpinBudget::systemNow);

  // Selects the thread that makes the first steps of a call. kHere selects the calling thread.
  // kByWaitingCaller selects a caller that waits at once, or the progress thread if no caller waits
  // at once. kHere and kByWaitingCaller apply only if the lock is free; otherwise the progress
  // thread makes the first steps.
  enum class Start : uint8_t { kHere, kByWaitingCaller, kByProgressThread };
  // Any thread. Takes the call, or returns false if the communicator has ended.
  bool submit(std::unique_ptr<Collective>& call, Start start);
  void wake() override { inbox_.bell().ring(); }
  void progressFor(const StreamEntry& entry) override;
  // True if all calls are complete and the transport has accepted every answer of the summation
  // service. The result is valid until the next submit().
  bool drained() const { return observed_.drained.load() == inbox_.pushed(); }
  // True if a stream has reached a call that has not ended yet. Any thread may call this function.
  bool hasCallsInFlight() const { return observed_.hasCallsInFlight.load(std::memory_order_relaxed); }
  // hasEnded() is true after end(), which follows any failure. endedWithCalls() is true if end()
  // ended a call.
  bool hasEnded() const { return state_.load() >= State::kEnded; }
  bool endedWithCalls() const { return state_.load() == State::kEndedWithCalls; }
  // Makes run() return.
  void stop();

  // Called by the progress thread. Moves calls until stop() or a failure, then closes the connections. Returns the
  // failure.
  Status run();
  // Ends all calls with `failure`. Call end() after run().
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
  Status sleepWithoutLock(std::chrono::microseconds maxSleep) BPS_REQUIRES(progressLock_);
  // Called by the progress thread after a sleep, without the lock.
  void checkWaits(bool woken);
  Status pollOrSleep() BPS_REQUIRES(progressLock_);
  Status sleepAsCaller() BPS_REQUIRES(progressLock_);
  template <class F>
  void moveAsCaller(F work) BPS_REQUIRES(progressLock_);
  void handOver() BPS_REQUIRES(progressLock_);
  // Makes every event wake the progress thread. Returns false if an event has already occurred.
  bool announceIdle() BPS_REQUIRES(progressLock_);
  // Makes every event wake a thread that sleeps in collectEvents(). Returns false if the thread must not sleep.
  bool armForSleep() BPS_REQUIRES(progressLock_);
  void clearIdle() BPS_REQUIRES(progressLock_);
  bool mustStop() const { return state_.load(std::memory_order_relaxed) != State::kRunning || failure_.failed(); }

  enum class State : uint8_t { kRunning, kStopping, kEnded, kEndedWithCalls };

  Mutex progressLock_;
  const std::unique_ptr<ProgressWork> work_;
  const FirstError& failure_;
  CallInbox inbox_;
  IdleWaiter idleWaiter_;  // the progress thread calls sleep() without the lock
  SpinBudget spin_ BPS_GUARDED_BY(progressLock_);
  bool lastStepMoved_ BPS_GUARDED_BY(progressLock_) = false;  // true if the next step may move more without a new event
  Status callerError_ BPS_GUARDED_BY(progressLock_);          // a caller's failure, which ends the communicator
  struct LeftToCaller {
    std::atomic<bool> expected{false};       // the caller waited for the last call at once
    std::atomic<bool> watched{false};        // the progress thread checks the call every millisecond
    std::atomic<uint64_t> waits{0};          // number of waits of callers
    uint64_t waitsAtCheck = 0;               // `waits` at the last check of the progress thread
    Deadline::Clock::time_point issuedAt{};  // when the last call was issued; written and read with the lock
  };
  LeftToCaller leftToCaller_;
  std::atomic<bool> callerActive_{false};
  std::atomic<State> state_{State::kRunning};
  struct Observed {  // written with the lock held, read by any thread
    std::atomic<bool> hasCallsInFlight{false};
    std::atomic<uint64_t> drained{0};  // number of calls that had ended when the work was last quiescent
  };
  Observed observed_;
};

}  // namespace bps
