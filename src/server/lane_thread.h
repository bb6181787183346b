// LaneThread: one thread of bps-server with the jobs that were given to it.
//
// Edge to the control thread: commands come under the mutex and ring the bell; events leave through JobEvents, which is
// safe to call from any thread.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/fd.h"
#include "src/base/mutex.h"
#include "src/net/poll/spin.h"
#include "src/net/waiter.h"
#include "src/server/served_job.h"

namespace bps {

class LaneThread {
 public:
  // `cpus`: where the thread may run; empty: anywhere.
  static Result<std::unique_ptr<LaneThread>> start(const Env& env, std::vector<int> cpus);
  ~LaneThread();  // frees its jobs and joins

  void open(JobSpec spec, JobPlan plan, JobEvents& events);
  void connect(uint64_t job, std::vector<Blob> handles);
  void finish(uint64_t job);
  void close(uint64_t job);  // nothing is heard of the job after this returns
  size_t jobs() const { return jobCount_.load(); }
  uint64_t bytesSummed() const { return bytesSummed_.load(); }

 private:
  struct Entry {
    std::unique_ptr<ServedJob> job;
    JobEvents* events = nullptr;
  };
  using Command = std::function<void()>;

  LaneThread(const Env& env, Doorbell bell, net::Waiter waiter, std::vector<int> cpus)
      : env_(env), bell_(std::move(bell)), waiter_(std::move(waiter)), cpus_(std::move(cpus)) {}
  void post(Command command);
  void run();
  bool runCommands();
  bool stepJobs();
  bool stepJob(uint64_t id, Entry& entry);
  void addJob(const JobSpec& spec, const JobPlan& plan, JobEvents& events);
  void dropJob(uint64_t id);
  void fail(uint64_t id, Entry& entry, Status why);
  void rest();

  Env env_;
  Doorbell bell_;
  net::Waiter waiter_;
  std::vector<int> cpus_;
  std::map<uint64_t, Entry> entries_;
  net::Spin<> spin_;
  std::vector<uint64_t> ended_;  // failed or ended in this pass; dropped at its end
  Mutex mutex_;
  std::vector<Command> commands_ BPS_GUARDED_BY(mutex_);
  std::atomic<size_t> jobCount_{0};
  std::atomic<uint64_t> bytesSummed_{0};
  uint64_t bytesOfEnded_ = 0;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace bps
