#include "src/reducer/iteration.h"

#include "src/base/format.h"

namespace bps::reducer {

void Iteration::begin(size_t parameters, bool synchronized) {
  open_ = true;
  synchronized_ = synchronized;
  marks_.assign(parameters, Mark::kNone);
  used_.clear();
  used_.reserve(parameters);  // so that endMark() allocates nothing
  marking_ = 0;
}

void Iteration::beginLocal(size_t parameters) { begin(parameters, false); }

void Iteration::beginSynchronized(const std::vector<Bucket>& buckets, size_t parameters, size_t furtherCalls) {
  begin(parameters, true);
  began_ = Deadline::Clock::now();
  missing_.clear();
  for (const Bucket& bucket : buckets) missing_.push_back(bucket.parameters.size());
  times_.assign(buckets.size() + furtherCalls, {});
  launched_ = ended_ = 0;
}

void Iteration::forgetTimes() {
  times_.clear();
  launched_ = ended_ = 0;
}

Status Iteration::startMark(size_t parameter) {
  if (marks_[parameter] != Mark::kNone)
    return failure(Code::kInvalidUsage, "parameter {} is already marked in this iteration", parameter);
  marks_[parameter] = Mark::kStarted;
  ++marking_;
  return {};
}

void Iteration::endMark(size_t parameter, size_t bucket, bool used) {
  marks_[parameter] = Mark::kDone;
  --marking_;
  if (used) used_.push_back(static_cast<uint32_t>(parameter));
  if (synchronized_ && --missing_[bucket] == 0) times_[bucket].ready = now();
}

std::vector<size_t> Iteration::unmarked() const {
  std::vector<size_t> found;
  for (size_t i = 0; i < marks_.size(); ++i)
    if (marks_[i] != Mark::kDone) found.push_back(i);
  return found;
}

std::vector<uint32_t> Iteration::readyOrder() const {
  std::vector<uint32_t> order = used_;
  std::vector<bool> listed(marks_.size());
  for (const uint32_t parameter : used_) listed[parameter] = true;
  for (const uint32_t parameter : reverseOrder(marks_.size()))
    if (!listed[parameter]) order.push_back(parameter);
  return order;
}

bool Iteration::mayLaunch() const {
  if (!open_ || !synchronized_ || allLaunched()) return false;
  return launched_ >= missing_.size() || missing_[launched_] == 0;
}

size_t Iteration::launchNext() {
  times_[launched_].launched = now();
  return launched_++;
}

void Iteration::callEnded(size_t call) {
  times_[call].ended = now();
  ++ended_;
}

}  // namespace bps::reducer
