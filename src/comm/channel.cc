#include "src/comm/channel.h"

#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"

namespace bps {
namespace {

// Loops without progress before the thread sleeps. A wake-up costs tens of microseconds, a loop about one.
constexpr int kSpins = 20;

}  // namespace

Result<std::unique_ptr<Channel>> Channel::start(ChannelParts parts) {
  std::unique_ptr<Channel> channel(new Channel(std::move(parts)));
  std::future<Status> outcome = channel->started_.get_future();
  Channel* self = channel.get();
  channel->thread_ = std::thread([self] {
    const Status ended = guarded([self] { return self->run(); });
    if (!ended.ok()) self->parts_.failure->set(ended);
  });
  BPS_TRY(outcome.get());  // bounded: connecting has its own deadline
  return channel;
}

Channel::~Channel() {
  stop_.store(true);
  parts_.bell->ring();
  if (thread_.joinable()) thread_.join();
}

Status Channel::run() {
  const ControlPlane& control = *parts_.control;
  logThreadName(fmt::format("rank {}", control.rank()));
  const Roster& roster = control.roster();
  const bool leads = roster.ranks[control.rank()].localRank == 0;
  UserBuffers userBuffers;
  std::unique_ptr<DataPlane> plane;
  std::unique_ptr<CallEngine> engine;
  std::unique_ptr<net::Waiter> waiter;
  const auto prepare = [&]() -> Status {
    waiter = std::make_unique<net::Waiter>(BPS_TRY(net::Waiter::create(*parts_.bell)));
    if (leads && roster.machines.size() > 1) {
      ChunkBuffers& buffers = parts_.local != nullptr ? parts_.local->buffers() : userBuffers;
      const auto cancelled = [this] { return stop_.load() || parts_.failure->failed(); };
      plane =
          BPS_TRY(DataPlane::connect({parts_.env, *parts_.control, parts_.plan, buffers, parts_.deadline, cancelled}));
      transport_ = plane->transport();
      Status added;
      plane->forEachComm([&](net::Comm& comm) {
        if (added.ok()) added = waiter->add(comm);
      });
      BPS_TRY(std::move(added));
    }
    engine = std::make_unique<CallEngine>(*parts_.control, parts_.plan, plane.get(), parts_.local);
    return {};
  };
  Status ready = guarded(prepare);
  const bool started = ready.ok();
  started_.set_value(std::move(ready));
  if (!started) return {};

  Status ended = guarded([&] { return loop(*engine, plane.get(), *waiter); });
  waiter->clear();
  plane.reset();  // from here on nothing touches the buffers of the calls
  ended = agreeOn(std::move(ended));
  for (auto& call : inbox_.close()) engine->add(std::move(call));
  engine->failAll(ended);
  return stop_.load() ? Status() : std::move(ended);
}

// The reason that this rank's calls end with. What only this rank knows is told to the others first: when its calls
// have ended, its process may end too. They all hear the same from the hub, and so does this rank.
Status Channel::agreeOn(Status ended) {
  if (ended.ok()) ended = Status(Code::kInvalidUsage, "aborted");  // stopped; a failure that is set says more
  else if (!parts_.failure->failed()) parts_.control->report(ended);
  const Deadline patience = Deadline::in(std::chrono::seconds(3));
  while (!stop_.load() && !parts_.failure->failed() && !patience.passed())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return parts_.failure->failed() ? parts_.failure->get() : std::move(ended);
}

Status Channel::loop(CallEngine& engine, DataPlane* plane, net::Waiter& waiter) {
  int idleLoops = 0;
  while (!stop_.load(std::memory_order_relaxed)) {
    if (parts_.failure->failed()) return parts_.failure->get();
    bool moved = false;
    for (auto& call : inbox_.takeAll()) {
      engine.add(std::move(call));
      moved = true;
    }
    const bool stepped = BPS_TRY(engine.step());
    if (moved || stepped) {
      idleLoops = 0;
      waiter.noteProgress();
      continue;
    }
    if (engine.idle() && (plane == nullptr || plane->drained())) drained_.store(engine.completed());
    if (!engine.idle() && ++idleLoops < kSpins) continue;
    BPS_TRY(rest(engine, plane, waiter));
  }
  return {};
}

// Sleeps until there is something to do.
Status Channel::rest(CallEngine& engine, const DataPlane* plane, net::Waiter& waiter) {
  using std::chrono::milliseconds;
  if (plane != nullptr) plane->watch();
  BPS_TRY(engine.checkDeparted());
  const bool busy = !engine.idle() || (plane != nullptr && plane->active());
  milliseconds most = engine.troubled() ? milliseconds(20) : busy ? milliseconds(500) : milliseconds(3600000);
  Status slept;
  const bool nothingCame = inbox_.fallAsleep() && (parts_.local == nullptr || parts_.local->fallAsleep());
  if (nothingCame && !parts_.failure->failed() && !stop_.load()) slept = waiter.sleep(most);
  inbox_.awake();
  if (parts_.local != nullptr) parts_.local->awake();
  parts_.bell->clear();
  return slept;
}

}  // namespace bps
