// StatusRequests: collects the state of a server's jobs for those who ask: `bps-server --status`, and the user by
// SIGUSR1.
//
// The summation threads report their jobs without waiting, so a request costs each thread one pass over its jobs. All
// requests that wait are answered by the same collection, and at least kMinInterval lies between two collections. So
// frequent requests cannot slow down jobs. If a thread does not report within kMaxWait, the report says so.
//
// The StatusRequests belongs to the ControlServer. Only the control thread uses it, except for askForLog().
#pragma once
#include <atomic>
#include <memory>
#include <vector>

#include "src/base/deadline.h"
#include "src/control/link/poll_set.h"
#include "src/server/job.h"
#include "src/wire/status_report.h"

namespace bps::server {

class StatusRequests {
 public:
  static constexpr std::chrono::milliseconds kMinInterval{200}, kMaxWait{2000};

  // Asks for a report to the session with this job id. Fails if that session has already asked and has no answer yet.
  Status ask(uint64_t session);
  // Asks for a report in the log. Any thread and any signal handler may call askForLog(). The caller then wakes the
  // control thread.
  void askForLog() { logAsked_.store(true); }

  void watch(PollSet& set) const;
  // Starts a collection if one is due.
  void step(JobRunner& runner, const std::shared_ptr<JobEvents>& events);
  // Takes the report of one thread. Ignores a report that belongs to an earlier collection.
  void add(uint64_t collection, std::vector<JobReport> jobs);

  struct Answer {
    std::vector<uint64_t> sessions;
    bool toLog = false;
    StatusReport report;
  };
  // Returns the answer if a collection has ended since the last call.
  std::optional<Answer> take();

 private:
  std::atomic<bool> logAsked_{false};
  std::vector<uint64_t> waiting_;  // sessions that the next collection answers
  Answer answer_;                  // the collection that is running
  uint64_t collection_ = 0;        // its number
  size_t missing_ = 0;             // threads that it waits for
  bool running_ = false;
  Deadline next_ = Deadline::in({}), end_ = Deadline::never();
};

}  // namespace bps::server
