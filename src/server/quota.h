// Quota: limits the file descriptors and the memory that a server's jobs may hold.
//
// A job gets at most half of the free resources, so that no single job can take all of them. A
// Reservation returns its resources when it is destroyed. Any thread may call these functions.
#pragma once
#include <cstddef>
#include <memory>

#include "src/base/mutex.h"
#include "src/base/status.h"

namespace bps {

struct JobResources {
  size_t descriptors = 0, bytes = 0;
};

class Quota {
 public:
  class Reservation {
   public:
    Reservation() = default;
    Reservation(std::shared_ptr<Quota> quota, JobResources need) : quota_(std::move(quota)), need_(need) {}
    Reservation(Reservation&&) = default;
    Reservation& operator=(Reservation&& other) noexcept {
      std::swap(quota_, other.quota_);
      std::swap(need_, other.need_);
      return *this;
    }
    // Takes more memory for the job. A job may have half of what is left besides its own.
    Status grow(size_t bytes);
    ~Reservation() {
      if (quota_) quota_->release(need_);
    }

   private:
    std::shared_ptr<Quota> quota_;
    JobResources need_;
  };

  // `limit` is the limit of descriptors (ulimit -n), which appears in error messages. `most` is the
  // limit for all jobs together.
  Quota(size_t limit, JobResources most) : limit_(limit), most_(most) {}
  // Raises the process's soft limit of descriptors to its hard limit. Jobs may use three quarters
  // of the descriptors and three quarters of the machine's memory.
  static std::shared_ptr<Quota> fromProcessLimits();

  JobResources left();
  static Result<Reservation> reserve(const std::shared_ptr<Quota>& quota, JobResources need);

 private:
  Status take(JobResources need);
  Status grow(JobResources& held, size_t bytes);
  void release(JobResources need);

  const size_t limit_;
  const JobResources most_;
  Mutex mutex_;
  JobResources used_ BPS_GUARDED_BY(mutex_);
};

}  // namespace bps
