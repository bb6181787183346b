#include "src/server/job_closer.h"

#include "src/base/deadline.h"
#include "src/base/guard.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/base/process/thread_name.h"

namespace bps {

JobCloser::~JobCloser() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.notifyAll();
  }
  thread_.join();
}

void JobCloser::post(Task task) {
  MutexLock lock(mutex_);
  tasks_.push_back(std::move(task));
  changed_.notifyAll();
}

// Returns an empty list when the closer must stop.
std::vector<JobCloser::Task> JobCloser::take() {
  MutexLock lock(mutex_);
  while (tasks_.empty() && !stopping_) changed_.waitUntil(mutex_, Deadline::never().at());
  return std::exchange(tasks_, {});
}

void JobCloser::run() {
  logThreadName("closer");
  nameThread("bps-closer");
  for (std::vector<Task> tasks = take(); !tasks.empty(); tasks = take()) {
    for (Task& task : tasks) {
      if (task.job) {
        task.job.reset();
        releaseFreedMemory();
      }
      task.reservation = {};
      const Status sent = guarded([&] {
        if (task.events) task.events->closed(task.id);
      });
      if (!sent.ok())
        logWarn(Subsystem::kServer, "job {:016x} is closed, but its event failed: {}", task.id, sent.message());
    }
  }
}

}  // namespace bps
