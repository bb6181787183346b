// Quota: what the jobs of a server may hold in this process: file descriptors and memory.
//
// A job is given at most half of what is left, so that one job can never take all. A Reservation gives its part back
// when it is destroyed. Any thread.
#pragma once
#include <cstddef>
#include <memory>

#include "src/base/mutex.h"
#include "src/base/status.h"

namespace bps {

struct JobNeed {
  size_t descriptors = 0, bytes = 0;
};

class Quota {
 public:
  class Reservation {
   public:
    Reservation() = default;
    Reservation(std::shared_ptr<Quota> quota, JobNeed need) : quota_(std::move(quota)), need_(need) {}
    Reservation(Reservation&&) = default;
    Reservation& operator=(Reservation&& other) noexcept {
      std::swap(quota_, other.quota_);
      std::swap(need_, other.need_);
      return *this;
    }
    ~Reservation() {
      if (quota_) quota_->giveBack(need_);
    }

   private:
    std::shared_ptr<Quota> quota_;
    JobNeed need_;
  };

  // `limit`: of descriptors (ulimit -n), for the message; `most`: for all jobs.
  Quota(size_t limit, JobNeed most) : limit_(limit), most_(most) {}
  // Raises the process's limit of descriptors as far as it goes. Jobs get what the control connections leave, and three
  // quarters of the machine's memory.
  static std::shared_ptr<Quota> ofProcess();

  JobNeed left();
  static Result<Reservation> reserve(const std::shared_ptr<Quota>& quota, JobNeed need);

 private:
  Status take(JobNeed need);
  void giveBack(JobNeed need);

  const size_t limit_;
  const JobNeed most_;
  Mutex mutex_;
  JobNeed used_ BPS_GUARDED_BY(mutex_);
};

}  // namespace bps
