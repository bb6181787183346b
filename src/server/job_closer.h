// JobCloser: a thread that frees ended jobs. Closing all connections of a large job can take seconds, and lane threads
// must not wait for that.
//
// A mutex guards the queue. A thread must not use a job after it has passed the job to post(). The
// JobCloser belongs to JobThreads.
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
    Quota::Reservation reservation;     // released after the job is freed
    std::unique_ptr<ServedJob> job;     // may be null
    std::shared_ptr<JobEvents> events;  // receives closed(id), may be null
    uint64_t id = 0;
  };

  JobCloser() : thread_([this] { run(); }) {}
  JobCloser(const JobCloser&) = delete;
  JobCloser& operator=(const JobCloser&) = delete;
  ~JobCloser();  // runs all remaining tasks first

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
