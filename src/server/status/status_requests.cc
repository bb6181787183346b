#include "src/server/status/status_requests.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace bps::server {

Status StatusRequests::ask(uint64_t session) {
  const auto has = [session](const std::vector<uint64_t>& sessions) {
    return std::find(sessions.begin(), sessions.end(), session) != sessions.end();
  };
  if (has(waiting_) || (running_ && has(answer_.sessions)))
    return {Code::kRemote, "it asks for the status before it has the previous answer"};
  waiting_.push_back(session);
  return {};
}

void StatusRequests::watch(PollSet& set) const {
  if (running_) set.wakeAt(end_.at());
  else if (!waiting_.empty() || logAsked_.load()) set.wakeAt(next_.at());
}

void StatusRequests::step(JobRunner& runner, const std::shared_ptr<JobEvents>& events) {
  if (running_ || !next_.passed() || (waiting_.empty() && !logAsked_.load())) return;
  running_ = true;
  next_ = Deadline::in(kMinInterval);
  end_ = Deadline::in(kMaxWait);
  answer_ = {std::exchange(waiting_, {}), logAsked_.exchange(false), {}};
  missing_ = runner.report(++collection_, events);
}

void StatusRequests::add(uint64_t collection, std::vector<JobReport> jobs) {
  if (!running_ || collection != collection_ || missing_ == 0) return;
  --missing_;
  std::move(jobs.begin(), jobs.end(), std::back_inserter(answer_.report.jobs));
}

std::optional<StatusRequests::Answer> StatusRequests::take() {
  if (!running_ || (missing_ > 0 && !end_.passed())) return {};
  running_ = false;
  answer_.report.silentThreads = static_cast<uint32_t>(missing_);
  return std::move(answer_);
}

}  // namespace bps::server
