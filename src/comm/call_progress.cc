#include "src/comm/call_progress.h"

#include <unistd.h>

#include "src/base/guard.h"
#include "src/net/waiting/home_cpu.h"
#include "src/net/waiting/shared_cpu.h"

namespace bps {
namespace {

using std::chrono::milliseconds;

// A call is taken by the first step; what it needs that had come before, by the second.
constexpr int kFirstSteps = 2;
// So many calls waited for at once make a caller trusted.
constexpr unsigned kTrustedStreak = 8;

constexpr milliseconds kLightTick(1), kAttendedTick(4), kNormalTick(500), kTroubledTick(20), kDeepTick(3600000);
// Nothing tells of the end of a copy to or from a device, which lasts tens of microseconds.
constexpr std::chrono::microseconds kCopyTick(20);

}  // namespace

Result<std::shared_ptr<CallProgress>> CallProgress::create(CallProgressParts parts) {
  net::Waiter waiter = BPS_TRY(net::Waiter::create(*parts.bell));
  net::Standby standby = BPS_TRY(net::Standby::create(*parts.bell, waiter));
  Status added;
  if (parts.plane != nullptr)
    parts.plane->forEachComm([&](net::Comm& comm) {
      if (added.ok()) added = waiter.add(comm);
    });
  BPS_TRY(std::move(added));
  return std::shared_ptr<CallProgress>(new CallProgress(std::move(parts), std::move(waiter), std::move(standby)));
}

CallProgress::Host CallProgress::hostOf(const Roster& roster, size_t rank) {
  Host host;
  for (size_t other = 0; other < roster.ranks.size(); ++other) {
    if (roster.ranks[other].hostName != roster.ranks[rank].hostName) continue;
    ++host.ranks;
    if (other < rank) ++host.number;
  }
  return host;
}

CallProgress::CallProgress(CallProgressParts parts, net::Waiter waiter, net::Standby standby)
    : parts_(std::move(parts)),
      host_(hostOf(parts_.control->roster(), parts_.control->rank())),
      roomForAll_(host_.ranks <= net::ThreadPlace::cpus()),
      inbox_(parts_.bell),
      waiter_(std::move(waiter)),
      standby_(std::move(standby)),
      engine_(*parts_.control, parts_.plan,
              {parts_.rails, parts_.plane.get(), parts_.local, parts_.traffic, parts_.staged}),
      callersSpin_(roomForAll_ ? net::Spin<>::kMostWithRoom : net::Spin<>::kMost) {}

bool CallProgress::submit(std::unique_ptr<Collective>& call, Kind kind) {
  if (!inbox_.push(call)) return false;
  if (!turn_.tryLock()) {
    inbox_.wake();
    return true;
  }
  if (!quiet() || kind == Kind::kForChannel) streak_ = 0;
  if (kind == Kind::kBrief || trusts()) {
    asCaller([this]() -> Status {
      turn_.assertHeld();
      for (int i = 0; i < kFirstSteps; ++i)
        if (!BPS_TRY(step()) || trusts()) break;
      return {};
    });
  } else {
    asked_.store(false);
    inbox_.wake();
  }
  turn_.unlock();
  return true;
}

void CallProgress::help(const StreamEntry& entry) {
  if (!turn_.tryLock()) {
    refused_.store(true);
    if (!turn_.tryLock()) return;
  }
  refused_.store(false);
  if (++streak_ % kTrustedStreak == 0 && sleep_.load() != Sleep::kLight) {
    asked_.store(true);
    parts_.bell->ring();
  }
  asCaller([&] {
    turn_.assertHeld();
    BPS_TRY(standby_.watch(false));  // first: else who stands by would return from each sleep, and sleep again
    const bool alone = inbox_.pushed() == engine_.completed() + 1;
    attended_.store(alone && (roomForAll_ || entry.reads.bytes <= kBriefBytes));
    Status driven = drive(entry);
    attended_.store(false);
    if (!engine_.idle()) streak_ = 0;  // another call has come meanwhile: its rings were left to this one
    return driven;
  });
  turn_.unlock();
}

// Work that another thread than the channel's does. What ends it, the channel's thread is told.
template <class F>
void CallProgress::asCaller(F work) {
  if (!open_ || !trouble_.ok()) return;
  rouse();
  waiter_.wakeWanted();
  trouble_ = guarded(work);
  giveUpTurn();
}

void CallProgress::stop() {
  stop_.store(true);
  parts_.bell->ring();
}

Status CallProgress::run() {
  MutexLock turn(turn_);
  Status ended = guarded([this] {
    turn_.assertHeld();
    return loop();
  });
  open_ = false;
  waiter_.clear();
  parts_.plane.reset();
  return ended;
}

void CallProgress::end(const Status& failure) {
  MutexLock turn(turn_);
  for (auto& call : inbox_.close())
    if (call != nullptr) engine_.add(std::move(call));  // null: memory ran out between the inbox and the engine
  lost_.store(!engine_.idle());
  engine_.failAll(failure);
  ended_.store(true);
}

Status CallProgress::loop() {
  while (!stopped()) {
    if (parts_.failure->failed()) return parts_.failure->get();
    BPS_TRY(std::exchange(trouble_, Status()));
    if (BPS_TRY(step())) continue;
    if (quiet()) drained_.store(engine_.completed());
    else if (pollsOn(spin_)) continue;
    BPS_TRY(standBy());
  }
  return {};
}

Result<bool> CallProgress::step() {
  bool moved = inbox_.takeAll([this](std::unique_ptr<Collective> call) {
    turn_.assertHeld();
    engine_.add(std::move(call));
  });
  moved = BPS_TRY(engine_.step()) || moved;
  if (moved) {
    waiter_.noteProgress();
    spin_.renew();
    callersSpin_.renew();
  }
  moved_ = moved;
  underWay_.store(engine_.underWay(), std::memory_order_relaxed);
  return moved;
}

// After a loop in which nothing moved: false, sleep.
bool CallProgress::pollsOn(net::Spin<>& spin) {
  if (!spin.lasts()) return false;
  waiter_.wakeWanted();
  return true;
}

Status CallProgress::standBy() {
  BPS_TRY(look());
  if (!quiet()) streak_ = 0;
  Status slept;
  if (settle()) slept = sleepWithoutTurn();
  rouse();
  parts_.bell->clear();
  BPS_TRY(std::move(slept));
  return waiter_.ask();
}

// How long the channel's thread is to sleep at most.
std::chrono::microseconds CallProgress::nextSleep() {
  const uint64_t before = std::exchange(seen_, engine_.completed());
  const bool news = seen_ != before, light = sleep_.load() == Sleep::kLight;
  asked_.store(false);
  sleep_.store(!quiet()                            ? Sleep::kNormal
               : news && streak_ >= kTrustedStreak ? Sleep::kLight
               : news || light                     ? Sleep::kNormal
                                                   : Sleep::kDeep);
  if (copying()) return kCopyTick;
  if (sleep_.load() == Sleep::kDeep) return kDeepTick;
  if (sleep_.load() == Sleep::kLight) return waiter_.limit(kLightTick);
  return waiter_.limit(engine_.troubled() ? kTroubledTick : kNormalTick);
}

// The channel's thread sleeps, and others can take the turn. It does not press for it when it only wants to look, nor
// while a caller attends to the only call: then it looks again soon, whatever that caller has or has not seen. Each
// look costs that caller some 20 us where they share a CPU; so those that only find it at work grow rarer.
Status CallProgress::sleepWithoutTurn() {
  std::chrono::microseconds most = nextSleep();
  std::chrono::microseconds longest = most == kLightTick ? kAttendedTick : most;
  Status slept;
  turn_.unlock();
  while (true) {
    Result<bool> outcome = standby_.sleep(most);
    if (!outcome.ok()) {
      slept = std::move(outcome).status();
      break;
    }
    const bool woken = std::move(outcome).value();
    if (woken && asked_.exchange(false)) {
      sleep_.store(Sleep::kLight);
      most = kLightTick;
      longest = kAttendedTick;
      continue;
    }
    if (woken && !attended_.load()) break;
    if (!turn_.tryLock()) {
      most = woken ? std::min<std::chrono::microseconds>(most, kLightTick) : std::min(2 * most, longest);
      continue;
    }
    if (woken || !isAtWork()) return slept;
    most = std::min<std::chrono::microseconds>(most, kLightTick);  // its next call may be one that it does not wait for
    turn_.unlock();
    if (refused_.exchange(false)) break;
  }
  turn_.lock();
  return slept;
}

// A caller that is trusted has ended calls since the last look, and has nothing left or is in the next one.
bool CallProgress::isAtWork() {
  if (!trusts() || (engine_.idle() && !quiet())) return false;
  const uint64_t before = std::exchange(seen_, engine_.completed());
  return seen_ != before;
}

// A caller moves the calls until its own is done.
Status CallProgress::drive(const StreamEntry& entry) {
  thread_local net::SharedCpu<> cpu(static_cast<uint32_t>(::gettid()));
  thread_local net::HomeCpu<> home;
  while (!entry.done.load(std::memory_order_acquire) && !ended()) {
    if (BPS_TRY(step())) continue;
    if (!pollsOn(callersSpin_)) BPS_TRY(rest());
    else if (roomForAll_) cpu.yield();
    else home.yield(host_.number);
  }
  return {};
}

// The sleep of a caller that has the turn.
Status CallProgress::rest() {
  BPS_TRY(look());
  Status slept;
  const bool nothingCame = inbox_.fallAsleep() && (parts_.local == nullptr || parts_.local->fallAsleep());
  if (nothingCame && !ended() && !copying() && !waiter_.arm())
    slept = waiter_.wait(engine_.troubled() ? kTroubledTick : kNormalTick);
  rouse();
  parts_.bell->clear();
  return slept;
}

// What is looked after now and then, while nothing moves.
Status CallProgress::look() {
  engine_.noteWait();
  return engine_.checkDeparted();
}

void CallProgress::rouse() {
  inbox_.awake();
  if (parts_.local != nullptr) parts_.local->awake();
}

bool CallProgress::quiet() const { return engine_.idle() && (parts_.plane == nullptr || parts_.plane->drained()); }

bool CallProgress::trusts() const { return streak_ >= kTrustedStreak && sleep_.load() == Sleep::kLight; }

bool CallProgress::settle() {
  bool nothingCame = inbox_.fallAsleep();
  if (quiet()) return standby_.watch(false).ok() && nothingCame && !ended();
  if (parts_.local != nullptr) nothingCame = parts_.local->fallAsleep() && nothingCame;
  nothingCame = !waiter_.arm() && nothingCame;
  return standby_.watch(true).ok() && nothingCame && !ended();
}

// The channel's thread goes on from here, woken if there is something to do that nothing else would wake it for.
void CallProgress::giveUpTurn() {
  if (quiet()) drained_.store(engine_.completed());
  if (trusts() && trouble_.ok() && inbox_.fallAsleep() && !ended()) return;
  const bool settled = settle();
  const bool unattended = !quiet() && (moved_ || sleep_.load() == Sleep::kDeep || waiter_.polls() || copying());
  if (settled && !unattended && trouble_.ok()) return;
  asked_.store(false);
  parts_.bell->ring();
}

}  // namespace bps
