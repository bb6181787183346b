#include "src/comm/channel.h"

#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/comm/local/binding.h"

namespace bps {
Result<std::unique_ptr<Channel>> Channel::start(ChannelParts parts) {
  std::unique_ptr<Channel> channel(new Channel(std::move(parts)));
  std::future<Status> outcome = channel->started_.get_future();
  Channel* self = channel.get();
  channel->thread_ = std::thread([self] {
    Status ended = guarded([self] { return self->run(); });
    if (!ended.ok()) self->parts_.fail(std::move(ended));
  });
  BPS_TRY(outcome.get());  // bounded: connecting has its own deadline
  return channel;
}

Channel::~Channel() {
  stop_.store(true);
  if (progress_ != nullptr) progress_->stop();
  if (thread_.joinable()) thread_.join();
}

Status Channel::run() {
  logThreadName(fmt::format("rank {}", parts_.control->rank()));
  if (const Status bound = bindThread(parts_.cpus); !bound.ok())
    logInfo(Subsystem::kTopo, "{}; the thread runs where it is", bound.message());
  Status ready = guarded([this] { return prepare(); });
  const bool started = ready.ok();
  started_.set_value(std::move(ready));
  if (!started) return {};
  const Status ended = agreeOn(progress_->run());
  progress_->end(ended);
  return stop_.load() ? Status() : ended.clone();
}

// Connects the data plane, if this rank drives a rail and there is a network to use.
Status Channel::prepare() {
  CallProgressParts parts;
  parts.control = parts_.control;
  parts.failure = parts_.failure;
  parts.local = parts_.local;
  parts.traffic = parts_.traffic;
  parts.staged = parts_.staged;
  parts.plan = parts_.plan;
  parts.bell = parts_.bell;
  const Roster& roster = parts_.control->roster();
  const size_t localRank = roster.ranks[parts_.control->rank()].localRank;
  parts.rails = parts_.rails;
  if (roster.machines.size() > 1 && parts_.rails.drives(localRank)) {
    ChunkBuffers* buffers = &userBuffers_;
    if (parts_.local != nullptr) buffers = &parts_.local->buffers();
    else if (parts_.staged != nullptr) buffers = parts_.staged;
    const auto cancelled = [this] { return stop_.load() || parts_.failure->failed(); };
    parts.plane = BPS_TRY(DataPlane::connect({parts_.env, *parts_.control, parts_.plan, parts_.rails, parts_.nic,
                                              parts_.plugin, *buffers, parts_.deadline, cancelled}));
    transport_ = parts.plane->transport();
    if (parts_.gpuObstacle.empty()) parts_.gpuObstacle = parts.plane->gpuObstacle();
    if (parts_.gpuObstacle.empty() && roster.settings.checksum)
      parts_.gpuObstacle = "BPS_CHECKSUM=1, which needs all chunks in host memory";
    if (parts_.gpuObstacle.empty() && parts_.staged != nullptr) parts_.staged->reachBy(parts.plane.get());
  } else if (roster.machines.size() > 1 && localRank < parts_.plan.rails) {
    // All who might have had a rail take part in the exchange.
    BPS_TRY(parts_.control->exchange(std::vector<Blob>(roster.endpoints()), parts_.deadline));
  }
  progress_ = BPS_TRY(CallProgress::create(std::move(parts)));
  return {};
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

}  // namespace bps
