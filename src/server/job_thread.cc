#include "src/server/job_thread.h"

#include <sched.h>

#include <algorithm>

#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/base/process/thread_name.h"

namespace bps {
namespace {

// After a set-up step, the thread serves other jobs for the duration of the step times this ratio.
constexpr int kSetUpTimeRatio = 9;
// The interval at which the thread checks what jobs wait for. The interval is a quarter of the
// shortest timeout.
constexpr std::chrono::milliseconds kJobCheckInterval{125};

}  // namespace

Result<std::unique_ptr<JobThread>> JobThread::start(const Env& env, std::vector<int> cpus, JobCloser& closer) {
  Doorbell bell = BPS_TRY(Doorbell::create());
  net::Waiter waiter = BPS_TRY(net::Waiter::create(bell));
  std::unique_ptr<JobThread> created(new JobThread(env, std::move(bell), std::move(waiter), closer));
  JobThread* self = created.get();
  const auto run = [self, cpus = std::move(cpus)] {
    self->setAffinity(cpus);
    const Status ended = guarded([self] { self->run(); });
    if (!ended.ok()) logWarn(Subsystem::kServer, "lane thread ended: {}", ended.message());
  };
  BPS_TRY(guarded([&] { created->thread_ = std::thread(run); }));
  return created;
}

JobThread::~JobThread() {
  stop_.store(true);
  bell_.ring();
  if (thread_.joinable()) thread_.join();
}

void JobThread::post(Command command) {
  MutexLock lock(mutex_);
  commands_.push_back(std::move(command));
  bell_.ring();
}

void JobThread::open(NewJob opening) {
  jobCount_.fetch_add(1);
  post([this, opening = std::make_shared<NewJob>(std::move(opening))] { addJob(std::move(*opening)); });
}

void JobThread::connect(uint64_t job, std::vector<Blob> handles) {
  post([this, job, handles = std::move(handles)] {
    const auto found = entries_.find(job);
    if (found == entries_.end()) return;
    Status set = found->second.job->setPeerHandles(handles);
    if (!set.ok()) fail(job, found->second, std::move(set));
  });
}

void JobThread::lose(uint64_t job, size_t machine) {
  post([this, job, machine] {
    const auto found = entries_.find(job);
    if (found != entries_.end()) found->second.job->lose(machine);
  });
}

void JobThread::finish(uint64_t job) {
  post([this, job] {
    const auto found = entries_.find(job);
    if (found != entries_.end()) found->second.job->finish();
  });
}

void JobThread::close(uint64_t job, std::shared_ptr<JobEvents> events) {
  jobCount_.fetch_sub(1);
  post([this, job, events = std::move(events)] {
    dropJob(job);
    closer_.post({.reservation = {}, .job = nullptr, .events = events, .id = job});
  });
}

void JobThread::report(uint64_t collection, std::shared_ptr<JobEvents> events) {
  post([this, collection, events = std::move(events)] {
    std::vector<JobReport> jobs;
    for (const auto& [id, entry] : entries_) jobs.push_back(entry.job->report());
    events->reported(collection, std::move(jobs));
  });
}

void JobThread::askForCounters() {
  if (!slot_.ask()) return;
  post([this] {
    ThreadCounters counters;
    for (const auto& [id, entry] : entries_) counters.jobs.push_back(entry.job->counters());
    counters.endedJobs = endedJobs_;
    slot_.put(std::move(counters));
  });
}

void JobThread::addJob(NewJob opening) {
  const uint64_t id = opening.spec.roster.jobId;
  Status added = guarded([&]() -> Status {
    Entry& entry = entries_[id];
    entry.reservation = std::move(opening.reservation);
    entry.events = opening.events;
    opening.spec.reserve = [&entry](size_t bytes) { return entry.reservation.grow(bytes); };
    entry.job = BPS_TRY(ServedJob::create(env_, opening.spec, opening.plan));
    return {};
  });
  if (added.ok()) return;
  entries_.erase(id);
  opening.events->failed(id, std::move(added));
}

void JobThread::dropJob(uint64_t id) {
  const auto found = entries_.find(id);
  if (found == entries_.end()) return;  // the job ended before the control thread closed it
  Entry& entry = found->second;
  endedJobs_ += entry.job->counters().service.ended();
  entry.job->forEachComm([this](net::Comm& comm) { waiter_.remove(comm); });
  closer_.post({std::move(entry.reservation), std::move(entry.job), nullptr, id});
  entries_.erase(found);
}

void JobThread::fail(uint64_t id, Entry& entry, Status why) {
  entry.events->failed(id, std::move(why));
  ended_.push_back(id);
}

bool JobThread::runCommands() {
  std::vector<Command> commands;
  {
    MutexLock lock(mutex_);
    commands.swap(commands_);
  }
  for (const Command& command : commands) command();
  return !commands.empty();
}

// If a job fails, even from lack of memory, only this job ends.
bool JobThread::stepJob(uint64_t id, Entry& entry) {
  bool moved = true;
  Status outcome = guarded([&]() -> Status {
    moved = BPS_TRY(advance(id, entry));
    return {};
  });
  if (!outcome.ok()) fail(id, entry, std::move(outcome));
  return moved;
}

Result<bool> JobThread::advance(uint64_t id, Entry& entry) {
  const ServedJob::Step step = BPS_TRY(entry.job->step());
  for (ServedJob::LostRank& lost : entry.job->takeLost()) entry.events->lost(id, lost.rank, std::move(lost.why));
  if (step == ServedJob::Step::kListening) entry.events->listening(id, entry.job->handles());
  if (step == ServedJob::Step::kConnected) {
    Status added;
    entry.job->forEachComm([&](net::Comm& comm) {
      if (added.ok()) added = waiter_.add(comm);
    });
    BPS_TRY(std::move(added));
    entry.events->connected(id);
  }
  if (step == ServedJob::Step::kEnded) {
    entry.events->ended(id);
    ended_.push_back(id);
  }
  const bool moved = step != ServedJob::Step::kIdle;
  if (moved && entry.job->clearWait()) entry.events->waits(id, Heartbeat());
  return moved;
}

bool JobThread::stepJobs() {
  bool moved = false, settingUp = false;
  for (auto& [id, entry] : entries_) {
    settingUp = settingUp || entry.job->settingUp();
    if (entry.job->settingUp()) continue;
    moved = stepJob(id, entry) || moved;
  }
  if (settingUp) moved = setUpNext(moved) || moved;
  for (const uint64_t id : std::exchange(ended_, {})) dropJob(id);
  return moved;
}

// Makes one set-up step of one job. The next call makes a step of another job.
bool JobThread::setUpNext(bool otherJobsMoved) {
  if (otherJobsMoved && !nextSetUp_.passed()) return false;
  const auto settingUp = [](const auto& each) { return each.second.job->settingUp(); };
  auto next = std::find_if(entries_.upper_bound(lastSetUpJob_), entries_.end(), settingUp);
  if (next == entries_.end()) next = std::find_if(entries_.begin(), entries_.end(), settingUp);
  if (next == entries_.end()) return false;
  lastSetUpJob_ = next->first;
  const auto begun = Deadline::Clock::now();
  const bool moved = stepJob(next->first, next->second);
  nextSetUp_ = Deadline::in((Deadline::Clock::now() - begun) * kSetUpTimeRatio);
  return moved;
}

// Checks what each job waits for. A busy thread also calls checkJobs() regularly, because one job
// may wait while other jobs keep the thread busy.
void JobThread::checkJobs() {
  nextJobCheck_ = Deadline::in(kJobCheckInterval);
  uint64_t summed = endedJobs_.bytesSummed;
  for (auto& [id, entry] : entries_) {
    if (const std::optional<Heartbeat> wait = entry.job->checkWait()) entry.events->waits(id, *wait);
    summed += entry.job->bytesSummed();
  }
  bytesSummed_.store(summed);
}

void JobThread::sleepUntilEvent() {
  checkJobs();
  bool busy = false, settingUp = false;
  for (auto& [id, entry] : entries_) {
    busy = busy || entry.job->active();
    settingUp = settingUp || entry.job->settingUp();
  }
  if (!busy) spin_.discardWait();
  constexpr std::chrono::milliseconds kSetUp(1), kUntilRung(3600000);
  const std::chrono::milliseconds most = settingUp ? kSetUp : busy ? kJobCheckInterval : kUntilRung;
  const Status slept = waiter_.sleep(most);
  if (!slept.ok()) logWarn(Subsystem::kServer, "{}", slept.message());
}

void JobThread::setAffinity(const std::vector<int>& cpus) {
  if (cpus.empty()) return;
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int cpu : cpus) CPU_SET(static_cast<unsigned>(cpu), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0)
    logWarn(Subsystem::kServer, "--cpus: not all of these CPUs are usable");
}

void JobThread::run() {
  logThreadName("lanes");
  nameThread("bps-lanes");
  while (!stop_.load()) {
    const bool commanded = runCommands();
    const bool moved = stepJobs();
    if (moved && nextJobCheck_.passed()) checkJobs();
    if (commanded || moved) {
      spin_.onProgress();
      waiter_.noteProgress();
    } else if (!entries_.empty() && spin_.consume()) {
      waiter_.markNeededAwake();
    } else {
      sleepUntilEvent();
    }
  }
  waiter_.clear();
  entries_.clear();
}

}  // namespace bps
