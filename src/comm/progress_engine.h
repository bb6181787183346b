// ProgressEngine: whose turn it is to move the calls of one communicator on this rank.
//
// The channel's thread is always there to do it. A thread that waits for its call does it itself while it waits, and
// one that issues a small call takes its first step: to hand the work to another thread and to be woken by it costs two
// wake-ups of tens of microseconds, where the call itself takes less than ten.
//
// A caller that has waited for each of its last calls right after it issued it is trusted to do so again: meanwhile the
// channel's thread does not wake up for what arrives, but only looks every one to four milliseconds whether the caller
// has come, and leaves the turn to a caller that has.
//
// One thread at a time has the turn, a mutex, and with it the engine, the data plane and its connections. Who gives it
// up while something is under way leaves the channel's thread standing by on all connections. When nothing is, that
// thread waits for its doorbell only: without a call of its own a rank has nothing to do, whatever its peers send.
//
// When the channel's thread is woken while a caller waits for the only call under way, it leaves what came to the
// caller instead of waiting for the turn: it would get it just between two calls, and the next would have to wait for
// it to give it up. With more ranks than CPUs it does so for brief calls only: longer ones take longer there when the
// callers move all of them.
//
// Memory ordering: everything but the inbox, the atomics and the doorbell is guarded by the turn.
// A caller clears `callerIsActive_` and `trustRequested_` before it rings for what it leaves, so that who is woken by
// that ring finds them cleared. Who rings from elsewhere may be taken for a caller that asks: then what it rings for is
// looked after a millisecond later.
#pragma once
#include <atomic>
#include <memory>

#include "src/base/mutex.h"
#include "src/comm/call_inbox.h"
#include "src/comm/call_scheduler.h"
#include "src/comm/failure/first_error.h"
#include "src/comm/host_stream.h"
#include "src/net/waiting/idle_waiter.h"
#include "src/net/waiting/spin_budget.h"
#include "src/net/waiting/waiter.h"

namespace bps {

// Calls up to this size are begun by the thread that issues them: to copy so much is as quick as to wake another.
inline constexpr size_t kInlineCallBytes = 16U << 10;

struct ProgressEngineArgs {
  ControlPlane* control = nullptr;  // these five outlive end()
  const FirstError* failure = nullptr;
  LocalReducer* local = nullptr;      // null: this rank is alone on its machine
  MachineTraffic* traffic = nullptr;  // null: nobody counts it
  StagedBuffers* staged = nullptr;    // null: the host's memory only
  JobPlan plan;
  Rails rails;
  std::unique_ptr<DataPlane> plane;  // null: no network to use
  std::shared_ptr<Doorbell> bell;
};

class ProgressEngine final : public StreamWorker {
 public:
  static Result<std::shared_ptr<ProgressEngine>> create(ProgressEngineArgs args);

  // Any thread. Takes over the call; false when the communicator has ended. The first step of a call that is `brief` is
  // made here and now if nobody else has the turn; that of one for the channel's thread never is.
  enum class SubmitMode : uint8_t { kNormal, kInline, kProgressThreadOnly };
  bool submit(std::unique_ptr<Collective>& call, SubmitMode kind);
  void wake() override { args_.bell->ring(); }
  void progressFor(const StreamEntry& entry) override;
  // Once true (and nothing is submitted), all calls are complete and every answer of the service is on its way.
  bool drained() const { return drained_.load() == inbox_.pushed(); }
  // A call has come to its place in its stream, and has not ended. Any thread.
  bool hasCallsInFlight() const { return hasCallsInFlight_.load(std::memory_order_relaxed); }
  // After end(), which comes soon after any failure; whether calls ended with it.
  bool hasEnded() const { return ended_.load(); }
  bool endedWithCalls() const { return endedWithCalls_.load(); }
  // Ends run().
  void stop();
  bool stopped() const { return stop_.load(std::memory_order_relaxed); }

  // The channel's thread: moves calls until stop() or a failure, which it returns; then closes the connections, so that
  // nothing touches the buffers of the calls any more.
  Status run();
  // After run(): ends all calls with this failure.
  void end(const Status& failure);

 private:
  explicit ProgressEngine(ProgressEngineArgs args, net::Waiter waiter, net::IdleWaiter standby);
  template <class F>
  void runAsCaller(F work) BPS_REQUIRES(progressLock_);
  Status loop() BPS_REQUIRES(progressLock_);
  // Moves what can move; true when anything did.
  Result<bool> step() BPS_REQUIRES(progressLock_);
  bool keepPolling(net::SpinBudget<>& spin) BPS_REQUIRES(progressLock_);
  Status waitForWork() BPS_REQUIRES(progressLock_);
  Status sleepUnlocked() BPS_REQUIRES(progressLock_);
  std::chrono::microseconds chooseSleepTime() BPS_REQUIRES(progressLock_);
  bool isCallerActive() BPS_REQUIRES(progressLock_);
  Status progressUntilDone(const StreamEntry& entry) BPS_REQUIRES(progressLock_);
  Status sleepAsCaller() BPS_REQUIRES(progressLock_);
  Status checkWaits() BPS_REQUIRES(progressLock_);
  void clearSleepFlags() BPS_REQUIRES(progressLock_);
  // Says to all who would wake somebody that nobody is at work now; false: something came meanwhile.
  bool announceIdle() BPS_REQUIRES(progressLock_);
  void handOver() BPS_REQUIRES(progressLock_);
  bool isQuiescent() const BPS_REQUIRES(progressLock_);
  bool trustsCaller() const BPS_REQUIRES(progressLock_);
  bool copying() const BPS_REQUIRES(progressLock_) { return args_.staged != nullptr && args_.staged->copying(); }
  bool mustStop() const { return stopped() || args_.failure->failed(); }

  ProgressEngineArgs args_;
  struct HostRanks {
    size_t ranks = 0, number = 0;  // how many it has, and how many before this one
  };
  static HostRanks hostRanksOf(const Roster& roster, size_t rank);
  const HostRanks hostRanks_;  // of this rank
  const bool hasCpuPerRank_;   // no more ranks on this host than CPUs that the channel's thread may use
  CallInbox inbox_;
  std::atomic<uint64_t> drained_{0};
  std::atomic<bool> stop_{false}, endedWithCalls_{false}, ended_{false};
  std::atomic<bool> callerIsActive_{false};  // by a caller, who waits for the only call
  std::atomic<bool> hasCallsInFlight_{false};
  std::atomic<bool> callerWasRefused_{false};  // a caller did not get the turn, and sleeps: it may be this look's fault

  Mutex progressLock_;
  net::Waiter waiter_ BPS_GUARDED_BY(progressLock_);
  net::IdleWaiter idleWaiter_;  // watch() with the turn, sleep() by the channel's thread
  CallScheduler engine_ BPS_GUARDED_BY(progressLock_);
  net::SpinBudget<> spin_ BPS_GUARDED_BY(progressLock_), callerSpin_ BPS_GUARDED_BY(progressLock_);  // within calls
  bool isRunning_ BPS_GUARDED_BY(progressLock_) = true;  // run() has not ended
  // In the last step, so that there may be more to do, of which nothing else tells.
  bool lastStepMoved_ BPS_GUARDED_BY(progressLock_) = false;
  // How soon the channel's thread looks by itself: in milliseconds, in half a second, or not before it is woken.
  // Changed with the turn, but for the better: to kLight the channel's thread changes it as soon as a caller has asked.
  enum class SleepDepth : uint8_t { kLight, kNormal, kDeep };
  std::atomic<SleepDepth> sleepDepth_{SleepDepth::kNormal};
  std::atomic<bool> trustRequested_{false};                          // by a caller, before it rang: to be trusted
  uint64_t completedAtLastCheck_ BPS_GUARDED_BY(progressLock_) = 0;  // completed calls when it last looked
  unsigned promptWaits_ BPS_GUARDED_BY(progressLock_) = 0;  // calls that were waited for as soon as they were issued
  Status callerError_ BPS_GUARDED_BY(progressLock_);        // met by another thread than the channel's
};

}  // namespace bps
