// JobThreads: the JobRunner of bps-server. JobThreads runs each job on the thread that has the
// fewest jobs. The number of machines and rails of a job is limited. Quota limits the job's file
// descriptors and memory. Only the control thread calls these functions, except where a comment
// says otherwise.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/server/job.h"
#include "src/server/job_thread.h"

namespace bps {

class JobThreads final : public JobRunner {
 public:
  static Result<std::unique_ptr<JobThreads>> start(const Env& env, size_t threads, const std::vector<int>& cpus);

  Status open(const JobSpec& spec, std::shared_ptr<JobEvents> events) override;
  void connect(uint64_t job, std::vector<Blob> handles) override;
  void lose(uint64_t job, size_t machine) override;
  void finish(uint64_t job) override;
  void close(uint64_t job) override;
  size_t report(uint64_t collection, const std::shared_ptr<JobEvents>& events) override;
  ServerLoad load() const override;  // any thread may call load()

  // Returns the counters of all threads. Waits at most kMaxCountersWait for them, and counts threads that do not answer
  // in time with their last answer. Any thread may call counters().
  static constexpr std::chrono::milliseconds kMaxCountersWait{500};
  struct Counters : ThreadCounters {
    size_t silentThreads = 0;
  };
  Counters counters() const;

 private:
  explicit JobThreads(const Env& env);
  Result<JobResources> requiredResources(const JobSpec& spec, const JobPlan& plan) const;

  struct Job {
    JobThread* thread;
    std::shared_ptr<JobEvents> events;
  };
  const std::shared_ptr<Quota> quota_ = Quota::fromProcessLimits();
  const size_t socketsPerConnection_;
  JobCloser closer_;  // outlives the threads that post to it
  std::vector<std::unique_ptr<JobThread>> threads_;
  std::map<uint64_t, Job> byJob_;  // control thread
};

}  // namespace bps
