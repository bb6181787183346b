#include "src/comm/progress/progress_thread.h"

#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/comm/local/binding.h"
#include "src/comm/progress/call_scheduler.h"

namespace bps {
Result<std::unique_ptr<ProgressThread>> ProgressThread::start(ProgressThreadArgs args) {
  std::unique_ptr<ProgressThread> channel(new ProgressThread(std::move(args)));
  std::future<Status> outcome = channel->started_.get_future();
  ProgressThread* self = channel.get();
  channel->thread_ = std::thread([self] {
    Status ended = guarded([self] { return self->run(); });
    if (!ended.ok()) self->args_.fail(std::move(ended));
  });
  BPS_TRY(outcome.get());  // bounded: connecting has its own deadline
  return channel;
}

ProgressThread::~ProgressThread() {
  stop_.store(true);
  if (progress_ != nullptr) progress_->stop();
  if (thread_.joinable()) thread_.join();
}

Status ProgressThread::run() {
  logThreadName(fmt::format("rank {}", args_.session.control->rank()));
  if (const Status bound = bindThread(args_.cpus); !bound.ok())
    logInfo(Subsystem::kTopo, "{}; the thread runs where it is", bound.message());
  Status ready = guarded([this] { return prepare(); });
  const bool started = ready.ok();
  started_.set_value(std::move(ready));
  if (!started) return {};
  const Status ended = waitForHubReason(progress_->run());
  progress_->end(ended);
  return stop_.load() ? Status() : ended.clone();
}

// Connects the data plane, if this rank drives a rail and there is a network to use.
Status ProgressThread::prepare() {
  const Session& session = args_.session;
  const Roster& roster = session.control->roster();
  const size_t localRank = roster.ranks[session.control->rank()].localRank;
  std::unique_ptr<DataPlane> plane;
  if (roster.machines.size() > 1 && session.rails.drives(localRank)) {
    ChunkBuffers* buffers = &userBuffers_;
    if (session.local != nullptr) buffers = &session.local->buffers();
    else if (session.staged != nullptr) buffers = session.staged;
    const auto cancelled = [this, &session] { return stop_.load() || session.failure->failed(); };
    plane = BPS_TRY(DataPlane::connect({args_.env, *session.control, session.plan, session.rails, args_.nic,
                                        args_.plugin, *buffers, args_.deadline, cancelled}));
    transport_ = plane->transport();
    if (args_.whyNoGpuDirect.empty()) args_.whyNoGpuDirect = plane->whyNoGpuDirect();
    if (args_.whyNoGpuDirect.empty() && roster.settings.checksum)
      args_.whyNoGpuDirect = "BPS_CHECKSUM=1, which needs all chunks in host memory";
    if (args_.whyNoGpuDirect.empty() && session.staged != nullptr) session.staged->setGpuCarrier(plane.get());
  } else if (roster.machines.size() > 1 && localRank < session.plan.rails) {
    // All who might have had a rail take part in the exchange.
    BPS_TRY(session.control->exchange(std::vector<Blob>(roster.endpoints()), args_.deadline));
  }
  auto scheduler = BPS_TRY(CallScheduler::create(session, std::move(plane)));
  progress_ = BPS_TRY(ProgressEngine::create(std::move(scheduler), session.bell, *session.failure));
  return {};
}

// The reason that this rank's calls end with. What only this rank knows is told to the others first: when its calls
// have ended, its process may end too. They all hear the same from the hub, and so does this rank.
Status ProgressThread::waitForHubReason(Status ended) {
  if (ended.ok()) ended = Status(Code::kInvalidUsage, "aborted");  // stopped; a failure that is set says more
  else if (!args_.session.failure->failed()) args_.session.control->report(ended);
  const Deadline deadline = Deadline::in(std::chrono::seconds(3));
  while (!stop_.load() && !args_.session.failure->failed() && !deadline.passed())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return args_.session.failure->failed() ? args_.session.failure->get() : std::move(ended);
}

}  // namespace bps
