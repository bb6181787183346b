// JobThread: one lane thread of bps-server and the jobs that run on it.
//
// The control thread posts commands under a mutex and rings the doorbell. The lane thread sends the
// events of its jobs through JobEvents. Jobs that are being set up (opening listeners, connecting)
// share at most a tenth of the thread's time, so that they do not slow down the jobs that sum. A
// JobCloser frees the jobs that have ended. The JobThread belongs to JobThreads.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/io/fd.h"
#include "src/base/mutex.h"
#include "src/base/process/spin_budget.h"
#include "src/net/waiter.h"
#include "src/server/job_closer.h"
#include "src/server/metrics/counters_slot.h"
#include "src/server/quota.h"
#include "src/server/served_job.h"

namespace bps {

class JobThread {
 public:
  // `cpus` lists the CPUs on which the thread may run. An empty list means any CPU.
  static Result<std::unique_ptr<JobThread>> start(const Env& env, std::vector<int> cpus, JobCloser& closer);
  ~JobThread();  // frees its jobs and joins the thread

  struct NewJob {
    JobSpec spec;
    JobPlan plan;
    std::shared_ptr<JobEvents> events;
    Quota::Reservation reservation;
  };

  void open(NewJob opening);
  void connect(uint64_t job, std::vector<Blob> handles);
  void lose(uint64_t job, size_t machine);
  void finish(uint64_t job);
  void close(uint64_t job, std::shared_ptr<JobEvents> events);  // `events` receives closed() once the job is freed
  void report(uint64_t collection, std::shared_ptr<JobEvents> events);  // `events` receives reported()
  size_t jobs() const { return jobCount_.load(); }
  uint64_t bytesSummed() const { return bytesSummed_.load(); }
  // Asks the thread for its counters. Any thread may call askForCounters(), and then countersUntil(), which returns
  // false if the thread has not answered; `counters` are then those of its last answer.
  void askForCounters();
  bool countersUntil(Deadline deadline, ThreadCounters& counters) { return slot_.waitUntil(deadline, counters); }

 private:
  struct Entry {
    Quota::Reservation reservation;
    std::unique_ptr<ServedJob> job;
    std::shared_ptr<JobEvents> events;
  };
  using Command = std::function<void()>;

  JobThread(const Env& env, Doorbell bell, net::Waiter waiter, JobCloser& closer)
      : env_(env), bell_(std::move(bell)), waiter_(std::move(waiter)), closer_(closer) {}
  void post(Command command);
  void run();
  bool runCommands();
  void setAffinity(const std::vector<int>& cpus);
  bool stepJobs();
  bool stepJob(uint64_t id, Entry& entry);
  Result<bool> advance(uint64_t id, Entry& entry);
  bool setUpNext(bool otherJobsMoved);
  void addJob(NewJob opening);
  void dropJob(uint64_t id);
  void fail(uint64_t id, Entry& entry, Status why);
  void checkJobs();
  void sleepUntilEvent();

  Env env_;
  Doorbell bell_;
  net::Waiter waiter_;
  JobCloser& closer_;
  std::map<uint64_t, Entry> entries_;
  SpinBudget spin_;
  std::vector<uint64_t> ended_;  // jobs that failed or ended; dropped at the end of stepJobs()
  uint64_t lastSetUpJob_ = 0;    // the last job that took a set-up step
  Deadline nextSetUp_ = Deadline::in({}), nextJobCheck_ = Deadline::in({});
  Mutex mutex_;
  std::vector<Command> commands_ BPS_GUARDED_BY(mutex_);
  std::atomic<size_t> jobCount_{0};
  std::atomic<uint64_t> bytesSummed_{0};
  ServiceCounters endedJobs_;
  CountersSlot slot_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace bps
