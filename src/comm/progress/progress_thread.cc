#include "src/comm/progress/progress_thread.h"

#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/base/process/thread_name.h"
#include "src/comm/local/machine/binding.h"
#include "src/comm/progress/call_scheduler.h"

namespace bps {

Result<std::unique_ptr<ProgressThread>> ProgressThread::start(std::unique_ptr<const Session> session,
                                                              Deadline deadline) {
  std::unique_ptr<ProgressThread> progressThread(new ProgressThread(std::move(session)));
  std::future<Status> outcome = progressThread->started_.get_future();
  ProgressThread* self = progressThread.get();
  progressThread->thread_ = std::thread([self, deadline] {
    const Status ended = guarded([self, deadline] { return self->run(deadline); });
    if (!ended.ok()) self->session_->failure.set(ended);
  });
  BPS_TRY(outcome.get());  // this wait ends, because connecting has a deadline
  return progressThread;
}

ProgressThread::~ProgressThread() {
  stop_.store(true);
  if (engine_ != nullptr) engine_->stop();
  if (thread_.joinable()) thread_.join();
}

Status ProgressThread::run(Deadline deadline) {
  logThreadName(fmt::format("rank {}", session_->control.rank()));
  nameThread("bps-progress");
  if (const Status bound = bindThread(session_->progressCpus); !bound.ok())
    logInfo(Subsystem::kTopo, "{}; the progress thread is not bound", bound.message());
  Status ready = guarded([this, deadline] { return prepare(deadline); });
  const bool started = ready.ok();
  started_.set_value(std::move(ready));
  if (!started) return {};
  const Status ended = waitForHubReason(engine_->run());
  engine_->end(ended);
  if (session_->recorder != nullptr) session_->recorder->writeOrWarn();
  return stop_.load() ? Status() : ended.clone();
}

Status ProgressThread::prepare(Deadline deadline) {
  auto plane = BPS_TRY(connectDataPlane(deadline));
  auto scheduler = BPS_TRY(CallScheduler::create(*session_, std::move(plane), gate_ ? &*gate_ : nullptr));
  handleDumpSignal(session_->env.dumpSignal);
  engine_ = BPS_TRY(ProgressEngine::create(std::move(scheduler), session_->bell, session_->failure.firstError()));
  return {};
}

// Returns null if this rank drives no rail or there is no network.
Result<std::unique_ptr<DataPlane>> ProgressThread::connectDataPlane(Deadline deadline) {
  const Roster& roster = session_->control.roster();
  const size_t localRank = session_->self().localRank;
  if (roster.machines.size() == 1 && !roster.settings.parameters) return std::unique_ptr<DataPlane>();
  if (!session_->rails.drives(localRank)) {
    // This exchange includes every rank that could have driven a rail.
    if (localRank < session_->plan.rails)
      BPS_TRY(session_->control.exchange(std::vector<Blob>(roster.endpoints()), deadline));
    return std::unique_ptr<DataPlane>();
  }
  gate_.emplace(machineBuffers(), session_->priority, ChunkGate::longestPause(roster.waitReportTime()));
  auto plane = BPS_TRY(DataPlane::connect(
      {session_->env, session_->control, session_->plan, session_->nic, session_->plugin, *gate_, deadline,
       [this] { return cancelled(); }, localRank == session_->rails.mainRail(), session_->recorder.get(),
       session_->counters != nullptr ? session_->counters->network : nullptr, session_->store, session_->copies}));
  transport_ = plane->transport();
  if (whyNoGpuDirect_.empty()) whyNoGpuDirect_ = plane->whyNoGpuDirect();
  if (whyNoGpuDirect_.empty() && roster.settings.checksum)
    whyNoGpuDirect_ = "BPS_CHECKSUM=1, which needs all chunks in host memory";
  StagedBuffers* staged = session_->staged();
  if (whyNoGpuDirect_.empty() && staged != nullptr) staged->setGpuRegistrar(plane.get());
  return plane;
}

// The buffers whose chunks the data plane carries.
ChunkBuffers& ProgressThread::machineBuffers() {
  if (session_->local != nullptr) return session_->local->buffers();
  if (StagedBuffers* staged = session_->staged()) return *staged;
  return userBuffers_;
}

// Returns the failure with which this rank's calls end. First reports a failure that only this rank
// knows, because the process may exit as soon as its calls have ended. Then waits for the reason
// that the hub sends to all ranks.
Status ProgressThread::waitForHubReason(Status ended) {
  CommunicatorFailure& failure = session_->failure;
  if (ended.ok()) ended = Status(Code::kInvalidUsage, "aborted");  // the thread was stopped
  else if (!failure.failed()) session_->control.report(ended);
  const Deadline deadline = Deadline::in(std::chrono::seconds(3));
  while (!cancelled() && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return failure.failed() ? failure.get() : std::move(ended);
}

}  // namespace bps
