#include "src/server/lane_thread.h"

#include <sched.h>

#include <future>

#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/base/memory.h"

namespace bps {

Result<std::unique_ptr<LaneThread>> LaneThread::start(const Env& env, std::vector<int> cpus) {
  Doorbell bell = BPS_TRY(Doorbell::create());
  net::Waiter waiter = BPS_TRY(net::Waiter::create(bell));
  std::unique_ptr<LaneThread> lane(new LaneThread(env, std::move(bell), std::move(waiter), std::move(cpus)));
  LaneThread* self = lane.get();
  lane->thread_ = std::thread([self] {
    const Status ended = guarded([self] { self->run(); });
    if (!ended.ok()) logWarn(Subsystem::kServer, "lane thread ended: {}", ended.message());
  });
  return lane;
}

LaneThread::~LaneThread() {
  stop_.store(true);
  bell_.ring();
  thread_.join();
}

void LaneThread::post(Command command) {
  MutexLock lock(mutex_);
  commands_.push_back(std::move(command));
  bell_.ring();
}

void LaneThread::open(JobSpec spec, JobPlan plan, JobEvents& events) {
  jobCount_.fetch_add(1);
  post([this, spec = std::move(spec), plan = std::move(plan), &events] { addJob(spec, plan, events); });
}

void LaneThread::connect(uint64_t job, std::vector<Blob> handles) {
  post([this, job, handles = std::move(handles)] {
    const auto found = entries_.find(job);
    if (found == entries_.end()) return;
    Status set = found->second.job->setPeerHandles(handles);
    if (!set.ok()) fail(job, found->second, std::move(set));
  });
}

void LaneThread::finish(uint64_t job) {
  post([this, job] {
    const auto found = entries_.find(job);
    if (found != entries_.end()) found->second.job->finish();
  });
}

void LaneThread::close(uint64_t job) {
  jobCount_.fetch_sub(1);
  // Waits: afterwards nobody may hear of the job. Soon over, since a lane thread never blocks.
  auto dropped = std::make_shared<std::promise<void>>();
  std::future<void> done = dropped->get_future();
  post([this, job, dropped] {
    dropJob(job);
    dropped->set_value();
  });
  if (done.wait_for(std::chrono::seconds(10)) != std::future_status::ready)
    logWarn(Subsystem::kServer, "job {:016x} is not closed after 10 s", job);
}

void LaneThread::addJob(const JobSpec& spec, const JobPlan& plan, JobEvents& events) {
  const uint64_t id = spec.roster.jobId;
  Result<std::unique_ptr<ServedJob>> made = ServedJob::create(env_, spec, plan);
  if (!made.ok()) {
    events.failed(id, std::move(made).status());
    return;
  }
  Entry& entry = entries_[id];
  entry.job = std::move(made).value();
  entry.events = &events;
  events.listening(id, entry.job->handles());
}

void LaneThread::dropJob(uint64_t id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;  // ended by itself before the control thread closed it
  bytesOfEnded_ += found->second.job->bytesSummed();
  found->second.job->forEachComm([this](net::Comm& comm) { waiter_.remove(comm); });
  entries_.erase(found);
  giveBackFreedMemory();
}

void LaneThread::fail(uint64_t id, Entry& entry, Status why) {
  entry.events->failed(id, std::move(why));
  ended_.push_back(id);
}

bool LaneThread::runCommands() {
  std::vector<Command> commands;
  {
    MutexLock lock(mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) command();
  return !commands.empty();
}

bool LaneThread::stepJob(uint64_t id, Entry& entry) {
  Result<ServedJob::Step> outcome = entry.job->step();
  if (!outcome.ok()) {
    fail(id, entry, std::move(outcome).status());
    return true;
  }
  const ServedJob::Step step = std::move(outcome).value();
  for (ServedJob::Lost& lost : entry.job->takeLost()) entry.events->lost(id, lost.rank, std::move(lost.why));
  if (step == ServedJob::Step::kConnected) {
    Status added;
    entry.job->forEachComm([&](net::Comm& comm) {
      if (added.ok()) added = waiter_.add(comm);
    });
    if (added.ok()) entry.events->connected(id);
    else fail(id, entry, std::move(added));
  }
  if (step == ServedJob::Step::kEnded) {
    entry.events->ended(id);
    ended_.push_back(id);
  }
  return step != ServedJob::Step::kIdle;
}

bool LaneThread::stepJobs() {
  bool moved = false;
  for (auto& [id, entry] : entries_) moved = stepJob(id, entry) || moved;
  for (const uint64_t id : std::exchange(ended_, {})) dropJob(id);
  return moved;
}

void LaneThread::rest() {
  bool busy = false, connecting = false;
  uint64_t summed = bytesOfEnded_;
  for (auto& [id, entry] : entries_) {
    entry.job->watch();
    busy = busy || entry.job->active();
    connecting = connecting || entry.job->connecting();
    summed += entry.job->bytesSummed();
  }
  bytesSummed_.store(summed);
  if (!busy) spin_.forget();
  const std::chrono::milliseconds most(connecting ? 1 : busy ? 500 : 3600000);
  const Status slept = waiter_.sleep(most);
  bell_.clear();
  if (!slept.ok()) logWarn(Subsystem::kServer, "{}", slept.message());
}

void LaneThread::run() {
  logThreadName("lanes");
  if (!cpus_.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (const int cpu : cpus_) CPU_SET(static_cast<unsigned>(cpu), &set);
    if (::sched_setaffinity(0, sizeof set, &set) != 0)
      logWarn(Subsystem::kServer, "--cpus: not all of them can be used");
  }
  while (!stop_.load()) {
    const bool commanded = runCommands();
    const bool moved = stepJobs();
    if (commanded || moved) {
      spin_.renew();
      waiter_.noteProgress();
    } else if (!entries_.empty() && spin_.lasts()) {
      waiter_.wakeWanted();
    } else {
      rest();
    }
  }
  waiter_.clear();
  entries_.clear();
}

}  // namespace bps
