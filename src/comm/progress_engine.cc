#include "src/comm/progress_engine.h"

#include <unistd.h>

#include "src/base/guard.h"
#include "src/net/waiting/assigned_cpu.h"
#include "src/net/waiting/contended_cpu.h"

namespace bps {
namespace {

using std::chrono::milliseconds;

// A call is taken by the first step; what it needs that had come before, by the second.
constexpr int kInlineSteps = 2;
// So many calls waited for at once make a caller trusted.
constexpr unsigned kTrustedPromptWaits = 8;

constexpr milliseconds kLightSleep(1), kCallerActiveSleep(4), kNormalSleep(500), kConnectionErrorSleep(20),
    kDeepSleep(3600000);
// Nothing tells of the end of a copy to or from a device, which lasts tens of microseconds.
constexpr std::chrono::microseconds kCopyPollInterval(20);

}  // namespace

Result<std::shared_ptr<ProgressEngine>> ProgressEngine::create(ProgressEngineArgs args) {
  net::Waiter waiter = BPS_TRY(net::Waiter::create(*args.bell));
  net::IdleWaiter standby = BPS_TRY(net::IdleWaiter::create(*args.bell, waiter));
  Status added;
  if (args.plane != nullptr)
    args.plane->forEachComm([&](net::Comm& comm) {
      if (added.ok()) added = waiter.add(comm);
    });
  BPS_TRY(std::move(added));
  return std::shared_ptr<ProgressEngine>(new ProgressEngine(std::move(args), std::move(waiter), std::move(standby)));
}

ProgressEngine::HostRanks ProgressEngine::hostRanksOf(const Roster& roster, size_t rank) {
  HostRanks host;
  for (size_t other = 0; other < roster.ranks.size(); ++other) {
    if (roster.ranks[other].hostName != roster.ranks[rank].hostName) continue;
    ++host.ranks;
    if (other < rank) ++host.number;
  }
  return host;
}

ProgressEngine::ProgressEngine(ProgressEngineArgs args, net::Waiter waiter, net::IdleWaiter standby)
    : args_(std::move(args)),
      hostRanks_(hostRanksOf(args_.control->roster(), args_.control->rank())),
      hasCpuPerRank_(hostRanks_.ranks <= net::ThreadAffinity::cpus()),
      inbox_(args_.bell),
      waiter_(std::move(waiter)),
      idleWaiter_(std::move(standby)),
      engine_(*args_.control, args_.plan, {args_.rails, args_.plane.get(), args_.local, args_.traffic, args_.staged}),
      callerSpin_(hasCpuPerRank_ ? net::SpinBudget<>::kMaxUncontended : net::SpinBudget<>::kMax) {}

bool ProgressEngine::submit(std::unique_ptr<Collective>& call, SubmitMode kind) {
  if (!inbox_.push(call)) return false;
  if (!progressLock_.tryLock()) {
    inbox_.wake();
    return true;
  }
  if (!isQuiescent() || kind == SubmitMode::kProgressThreadOnly) promptWaits_ = 0;
  if (kind == SubmitMode::kInline || trustsCaller()) {
    runAsCaller([this]() -> Status {
      progressLock_.assertHeld();
      for (int i = 0; i < kInlineSteps; ++i)
        if (!BPS_TRY(step()) || trustsCaller()) break;
      return {};
    });
  } else {
    trustRequested_.store(false);
    inbox_.wake();
  }
  progressLock_.unlock();
  return true;
}

void ProgressEngine::progressFor(const StreamEntry& entry) {
  if (!progressLock_.tryLock()) {
    callerWasRefused_.store(true);
    if (!progressLock_.tryLock()) return;
  }
  callerWasRefused_.store(false);
  if (++promptWaits_ % kTrustedPromptWaits == 0 && sleepDepth_.load() != SleepDepth::kLight) {
    trustRequested_.store(true);
    args_.bell->ring();
  }
  runAsCaller([&] {
    progressLock_.assertHeld();
    BPS_TRY(idleWaiter_.watchConnections(
        false));  // first: else who stands by would return from each sleep, and sleep again
    const bool alone = inbox_.pushed() == engine_.completed() + 1;
    callerIsActive_.store(alone && (hasCpuPerRank_ || entry.reads.bytes <= kInlineCallBytes));
    Status driven = progressUntilDone(entry);
    callerIsActive_.store(false);
    if (!engine_.idle()) promptWaits_ = 0;  // another call has come meanwhile: its rings were left to this one
    return driven;
  });
  progressLock_.unlock();
}

// Work that another thread than the channel's does. What ends it, the channel's thread is told.
template <class F>
void ProgressEngine::runAsCaller(F work) {
  if (!isRunning_ || !callerError_.ok()) return;
  clearSleepFlags();
  waiter_.markNeededAwake();
  callerError_ = guarded(work);
  handOver();
}

void ProgressEngine::stop() {
  stop_.store(true);
  args_.bell->ring();
}

Status ProgressEngine::run() {
  MutexLock lock(progressLock_);
  Status ended = guarded([this] {
    progressLock_.assertHeld();
    return loop();
  });
  isRunning_ = false;
  waiter_.clear();
  args_.plane.reset();
  return ended;
}

void ProgressEngine::end(const Status& failure) {
  MutexLock lock(progressLock_);
  for (auto& call : inbox_.close())
    if (call != nullptr) engine_.add(std::move(call));  // null: memory ran out between the inbox and the engine
  endedWithCalls_.store(!engine_.idle());
  engine_.failAll(failure);
  ended_.store(true);
}

Status ProgressEngine::loop() {
  while (!stopped()) {
    if (args_.failure->failed()) return args_.failure->get();
    BPS_TRY(std::exchange(callerError_, Status()));
    if (BPS_TRY(step())) continue;
    if (isQuiescent()) drained_.store(engine_.completed());
    else if (keepPolling(spin_)) continue;
    BPS_TRY(waitForWork());
  }
  return {};
}

Result<bool> ProgressEngine::step() {
  bool moved = inbox_.takeAll([this](std::unique_ptr<Collective> call) {
    progressLock_.assertHeld();
    engine_.add(std::move(call));
  });
  moved = BPS_TRY(engine_.step()) || moved;
  if (moved) {
    waiter_.noteProgress();
    spin_.onProgress();
    callerSpin_.onProgress();
  }
  lastStepMoved_ = moved;
  hasCallsInFlight_.store(engine_.hasCallsInFlight(), std::memory_order_relaxed);
  return moved;
}

// After a loop in which nothing moved: false, sleep.
bool ProgressEngine::keepPolling(net::SpinBudget<>& spin) {
  if (!spin.consume()) return false;
  waiter_.markNeededAwake();
  return true;
}

Status ProgressEngine::waitForWork() {
  BPS_TRY(checkWaits());
  if (!isQuiescent()) promptWaits_ = 0;
  Status slept;
  if (announceIdle()) slept = sleepUnlocked();
  clearSleepFlags();
  args_.bell->clear();
  BPS_TRY(std::move(slept));
  return waiter_.pollEvents();
}

// How long the channel's thread is to sleep at most.
std::chrono::microseconds ProgressEngine::chooseSleepTime() {
  const uint64_t before = std::exchange(completedAtLastCheck_, engine_.completed());
  const bool news = completedAtLastCheck_ != before, light = sleepDepth_.load() == SleepDepth::kLight;
  trustRequested_.store(false);
  sleepDepth_.store(!isQuiescent()                                ? SleepDepth::kNormal
                    : news && promptWaits_ >= kTrustedPromptWaits ? SleepDepth::kLight
                    : news || light                               ? SleepDepth::kNormal
                                                                  : SleepDepth::kDeep);
  if (copying()) return kCopyPollInterval;
  if (sleepDepth_.load() == SleepDepth::kDeep) return kDeepSleep;
  if (sleepDepth_.load() == SleepDepth::kLight) return waiter_.maxSleep(kLightSleep);
  return waiter_.maxSleep(engine_.hasConnectionError() ? kConnectionErrorSleep : kNormalSleep);
}

// The channel's thread sleeps, and others can take the turn. It does not press for it when it only wants to look, nor
// while a caller attends to the only call: then it looks again soon, whatever that caller has or has not seen. Each
// look costs that caller some 20 us where they share a CPU; so those that only find it at work grow rarer.
Status ProgressEngine::sleepUnlocked() {
  std::chrono::microseconds most = chooseSleepTime();
  std::chrono::microseconds longest = most == kLightSleep ? kCallerActiveSleep : most;
  Status slept;
  progressLock_.unlock();
  while (true) {
    Result<bool> outcome = idleWaiter_.sleep(most);
    if (!outcome.ok()) {
      slept = std::move(outcome).status();
      break;
    }
    const bool woken = std::move(outcome).value();
    if (woken && trustRequested_.exchange(false)) {
      sleepDepth_.store(SleepDepth::kLight);
      most = kLightSleep;
      longest = kCallerActiveSleep;
      continue;
    }
    if (woken && !callerIsActive_.load()) break;
    if (!progressLock_.tryLock()) {
      most = woken ? std::min<std::chrono::microseconds>(most, kLightSleep) : std::min(2 * most, longest);
      continue;
    }
    if (woken || !isCallerActive()) return slept;
    most =
        std::min<std::chrono::microseconds>(most, kLightSleep);  // its next call may be one that it does not wait for
    progressLock_.unlock();
    if (callerWasRefused_.exchange(false)) break;
  }
  progressLock_.lock();
  return slept;
}

// A caller that is trusted has ended calls since the last look, and has nothing left or is in the next one.
bool ProgressEngine::isCallerActive() {
  if (!trustsCaller() || (engine_.idle() && !isQuiescent())) return false;
  const uint64_t before = std::exchange(completedAtLastCheck_, engine_.completed());
  return completedAtLastCheck_ != before;
}

// A caller moves the calls until its own is done.
Status ProgressEngine::progressUntilDone(const StreamEntry& entry) {
  thread_local net::ContendedCpu<> cpu(static_cast<uint32_t>(::gettid()));
  thread_local net::AssignedCpu<> home;
  while (!entry.done.load(std::memory_order_acquire) && !mustStop()) {
    if (BPS_TRY(step())) continue;
    if (!keepPolling(callerSpin_)) BPS_TRY(sleepAsCaller());
    else if (hasCpuPerRank_) cpu.yield();
    else home.yield(hostRanks_.number);
  }
  return {};
}

// The sleep of a caller that has the turn.
Status ProgressEngine::sleepAsCaller() {
  BPS_TRY(checkWaits());
  Status slept;
  const bool nothingCame = inbox_.prepareToSleep() && (args_.local == nullptr || args_.local->prepareToSleep());
  if (nothingCame && !mustStop() && !copying() && !waiter_.arm())
    slept = waiter_.wait(engine_.hasConnectionError() ? kConnectionErrorSleep : kNormalSleep);
  clearSleepFlags();
  args_.bell->clear();
  return slept;
}

// What is looked after now and then, while nothing moves.
Status ProgressEngine::checkWaits() {
  engine_.reportWait();
  return engine_.failIfWaitingForDeparted();
}

void ProgressEngine::clearSleepFlags() {
  inbox_.endSleep();
  if (args_.local != nullptr) args_.local->endSleep();
}

bool ProgressEngine::isQuiescent() const {
  return engine_.idle() && (args_.plane == nullptr || args_.plane->drained());
}

bool ProgressEngine::trustsCaller() const {
  return promptWaits_ >= kTrustedPromptWaits && sleepDepth_.load() == SleepDepth::kLight;
}

bool ProgressEngine::announceIdle() {
  bool nothingCame = inbox_.prepareToSleep();
  if (isQuiescent()) return idleWaiter_.watchConnections(false).ok() && nothingCame && !mustStop();
  if (args_.local != nullptr) nothingCame = args_.local->prepareToSleep() && nothingCame;
  nothingCame = !waiter_.arm() && nothingCame;
  return idleWaiter_.watchConnections(true).ok() && nothingCame && !mustStop();
}

// The channel's thread goes on from here, woken if there is something to do that nothing else would wake it for.
void ProgressEngine::handOver() {
  if (isQuiescent()) drained_.store(engine_.completed());
  if (trustsCaller() && callerError_.ok() && inbox_.prepareToSleep() && !mustStop()) return;
  const bool announced = announceIdle();
  const bool unattended = !isQuiescent() && (lastStepMoved_ || sleepDepth_.load() == SleepDepth::kDeep ||
                                             waiter_.hasPolledComms() || copying());
  if (announced && !unattended && callerError_.ok()) return;
  trustRequested_.store(false);
  args_.bell->ring();
}

}  // namespace bps
