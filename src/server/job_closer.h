// JobCloser: a thread that frees the jobs that have ended, so that no lane thread waits for it: closing all connections
// of a large job takes seconds.
//
// Memory ordering: a mutex guards the queue. Whoever hands a job over has used it for the last time.
#pragma once
#include <memory>
#include <thread>
#include <vector>

#include "src/base/mutex.h"
#include "src/server/job.h"
#include "src/server/quota.h"
#include "src/server/served_job.h"

namespace bps {

class JobCloser {
 public:
  struct Task {
    Quota::Reservation reservation;   // given back after the job is freed
    std::unique_ptr<ServedJob> job;   // or none
    std::shared_ptr<JobEvents> told;  // hears that job `id` is closed; or nobody
    uint64_t id = 0;
  };

  JobCloser() : thread_([this] { run(); }) {}
  JobCloser(const JobCloser&) = delete;
  JobCloser& operator=(const JobCloser&) = delete;
  ~JobCloser();  // after the last task

  void post(Task task);

 private:
  void run();
  std::vector<Task> take();

  Mutex mutex_;
  CondVar changed_;
  std::vector<Task> tasks_ BPS_GUARDED_BY(mutex_);
  bool stopping_ BPS_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace bps
