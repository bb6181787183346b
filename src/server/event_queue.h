// EventQueue: carries the events of a server's jobs from their lane threads to the control thread.
//
// A mutex guards the queue, and the doorbell wakes the control thread. The queue exists until
// neither a job nor the control server refers to it.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "src/base/io/fd.h"
#include "src/base/mutex.h"
#include "src/server/job.h"

namespace bps::server {

class EventQueue final : public JobEvents {
 public:
  enum class Kind { kListening, kConnected, kFailed, kLost, kWaits, kEnded, kClosed, kReported };
  struct Event {
    Kind kind;
    uint64_t job;
    std::vector<Blob> handles;
    Status why;
    size_t rank = 0;
    Heartbeat wait{};
    std::vector<JobReport> jobs{};  // kReported; `job` is then the number of the collection
  };

  explicit EventQueue(Doorbell bell) : bell_(std::move(bell)) {}

  void listening(uint64_t job, std::vector<Blob> handles) override {
    push({Kind::kListening, job, std::move(handles), {}});
  }
  void connected(uint64_t job) override { push({Kind::kConnected, job, {}, {}}); }
  void failed(uint64_t job, Status why) override { push({Kind::kFailed, job, {}, std::move(why)}); }
  void lost(uint64_t job, size_t rank, std::string why) override {
    push({Kind::kLost, job, {}, {Code::kRemote, std::move(why)}, rank});
  }
  void waits(uint64_t job, const Heartbeat& wait) override { push({Kind::kWaits, job, {}, {}, 0, wait}); }
  void ended(uint64_t job) override { push({Kind::kEnded, job, {}, {}}); }
  void closed(uint64_t job) override { push({Kind::kClosed, job, {}, {}}); }

  void reported(uint64_t collection, std::vector<JobReport> jobs) override {
    push({Kind::kReported, collection, {}, {}, 0, {}, std::move(jobs)});
  }

  // Called by the control thread.
  const Doorbell& bell() const { return bell_; }
  std::vector<Event> take() {
    bell_.clear();
    MutexLock lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  void push(Event event) {
    {
      MutexLock lock(mutex_);
      events_.push_back(std::move(event));
    }
    bell_.ring();
  }

  Doorbell bell_;
  Mutex mutex_;
  std::vector<Event> events_ BPS_GUARDED_BY(mutex_);
};

}  // namespace bps::server
