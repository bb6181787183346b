#include "src/reducer/reducer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "src/base/format.h"
#include "src/base/guard.h"

namespace bps::reducer {
namespace {

constexpr size_t kNamedParameters = 8;  // an error names at most so many

// Returns "0, 3 and 5", or "0, 1, ... and 40 more".
std::string listOf(const std::vector<size_t>& numbers) {
  std::string text;
  const size_t named = std::min(numbers.size(), kNamedParameters);
  for (size_t i = 0; i < named; ++i) {
    const bool last = i > 0 && i + 1 == numbers.size();
    text += fmt::format("{}{}", i == 0 ? "" : last ? " and " : ", ", numbers[i]);
  }
  return named == numbers.size() ? text : fmt::format("{} and {} more", text, numbers.size() - named);
}

Status unmarkedFailure(const std::vector<size_t>& unmarked) {
  return failure(Code::kInvalidUsage,
                 "{} not marked: {}. Call bpsReducerReady or bpsReducerUnused for each, then bpsReducerFinish again",
                 unmarked.size() == 1 ? "a parameter is" : "parameters are", listOf(unmarked));
}

}  // namespace

Result<std::unique_ptr<Reducer>> Reducer::create(ReducerSpec spec) {
  const size_t parameters = spec.parameters.size();
  std::vector<Bucket> buckets = planBuckets(spec.parameters, reverseOrder(parameters), spec.limits);
  Gradients gradients = BPS_TRY(Gradients::create(spec.parameters, spec.views, std::move(buckets)));
  int rank = 0;
  BPS_TRY(fromApi(bpsCommUserRank(spec.comms.front(), &rank)));
  std::unique_ptr<Reducer> made(new Reducer(spec, std::move(gradients), rank == 0));
  for (bpsComm_t comm : made->spec_.comms)
    made->queues_.push_back(BPS_TRY(CallQueue::create(comm, [reducer = made.get()](size_t number, Status outcome) {
      reducer->callEnded(number, std::move(outcome));
    })));
  return made;
}

Reducer::Reducer(const ReducerSpec& spec, Gradients gradients, bool isRankZero)
    : spec_(spec), isRankZero_(isRankZero), gradients_(std::move(gradients)) {}

Reducer::~Reducer() {
  {
    MutexLock lock(mutex_);
    if (iteration_.open() && iteration_.synchronized() && !iteration_.allLaunched() && failure_.ok())
      fail({Code::kRemote, "the reducer was destroyed in the middle of an iteration"});
  }
  for (const auto& queue : queues_) queue->stop();  // afterwards no thread uses this object
}

Status Reducer::checkParameter(size_t parameter) const {
  if (parameter < spec_.parameters.size()) return {};
  return failure(Code::kInvalidArgument, "param is {}, the reducer has {} parameters", parameter,
                 spec_.parameters.size());
}

Result<void*> Reducer::view(size_t parameter) const {
  BPS_TRY(checkParameter(parameter));
  if (!spec_.views) return Status(Code::kInvalidUsage, "the gradients are no views: config.gradientsAreViews is 0");
  MutexLock lock(mutex_);
  return static_cast<void*>(gradients_.slot(parameter));
}

Result<bool> Reducer::begin(bool synchronize) {
  MutexLock lock(mutex_);
  if (!failure_.ok()) return failure_.clone();
  if (iteration_.open()) return Status(Code::kInvalidUsage, "an iteration is open: call bpsReducerFinish first");
  Status acquired;
  for (const auto& queue : queues_)
    if (synchronize && acquired.ok()) acquired = queue->acquire();
  Result<bool> moved = acquired.ok() ? applyOrder() : std::move(acquired);
  if (!moved.ok()) {
    fail(moved.error().clone());
    return failure_.clone();
  }
  if (synchronize) iteration_.beginSynchronized(gradients_.buckets(), spec_.parameters.size(), furtherCalls());
  else iteration_.beginLocal(spec_.parameters.size());
  return moved;
}

// Returns whether the views have moved.
Result<bool> Reducer::applyOrder() {
  if (order_.state != OrderState::kAgreed) return false;
  if (!isPermutation(order_.parameters))
    return Status(Code::kRemote, "the order of the gradients that rank 0 sent lists a parameter twice");
  std::vector<Bucket> buckets = planBuckets(spec_.parameters, order_.parameters, spec_.limits);
  order_.state = OrderState::kApplied;
  if (buckets == gradients_.buckets()) return false;
  BPS_TRY(gradients_.moveTo(std::move(buckets)));
  iteration_.forgetTimes();
  return spec_.views;
}

Status Reducer::checkMark(size_t parameter, const void* gradient, bool used) {
  while (spec_.hasDevice && launching_) waitForChange();  // one thread at a time may use a communicator
  if (!failure_.ok()) return failure_.clone();
  if (groupIsOpen()) return {Code::kInvalidUsage, "the calls of a reducer cannot be part of a group: call bpsGroupEnd"};
  if (!iteration_.open()) return {Code::kInvalidUsage, "no iteration is open: call bpsReducerBegin first"};
  if (spec_.views != (gradient == nullptr) && spec_.parameters[parameter].count > 0)
    return {Code::kInvalidArgument,
            spec_.views ? "gradient is not NULL, but the gradients are views" : "gradient is NULL"};
  if (!used && !iteration_.synchronized())
    return {Code::kInvalidUsage, "the iteration is local: parameters that are not used need no mark"};
  if (!used && !spec_.findUnused)
    return failure(Code::kInvalidUsage, "parameter {} is not used, but config.findUnusedParameters is 0", parameter);
  if (spec_.hasDevice && BPS_TRY(commHoldsDeviceMemory(spec_.comms.front(), gradient)))
    return failure(Code::kInvalidArgument, "the gradient of parameter {} is in memory of a CUDA device", parameter);
  return {};
}

Status Reducer::mark(size_t parameter, void* gradient, bool used) {
  BPS_TRY(checkParameter(parameter));
  {
    MutexLock lock(mutex_);
    BPS_TRY(checkMark(parameter, gradient, used));
    BPS_TRY(iteration_.startMark(parameter));
    if (used) gradients_.use(parameter);
    if (!iteration_.synchronized()) {
      iteration_.endMark(parameter, 0, used);
      return {};
    }
  }
  Status written = guarded([&] { gradients_.contribute(parameter, gradient); });
  MutexLock lock(mutex_);
  iteration_.endMark(parameter, gradients_.bucketOf(parameter), used);
  if (!written.ok()) fail(std::move(written));
  launchCalls();
  changed_.notifyAll();
  return failure_.clone();
}

Status Reducer::wait(size_t parameter) {
  BPS_TRY(checkParameter(parameter));
  MutexLock lock(mutex_);
  while (failure_.ok() && iteration_.open() && iteration_.synchronized() && !arrived(parameter)) waitForChange();
  return failure_.clone();
}

Status Reducer::finish() {
  MutexLock lock(mutex_);
  if (failure_.ok() && !iteration_.open())
    return {Code::kInvalidUsage, "no iteration is open: call bpsReducerBegin first"};
  while (failure_.ok() && iteration_.marking()) waitForChange();
  if (failure_.ok() && iteration_.synchronized())
    if (const std::vector<size_t> unmarked = iteration_.unmarked(); !unmarked.empty()) return unmarkedFailure(unmarked);
  while (launching_ || iteration_.inFlight() || (failure_.ok() && !iteration_.allEnded())) waitForChange();
  for (const auto& queue : queues_) queue->release();
  if (!failure_.ok()) return failure_.clone();
  iteration_.close();
  if (!iteration_.synchronized()) return {};
  gradients_.forgetUse();
  if (spec_.findUnused) usage_.known = usage_.bitmap;
  else usage_.known.assign(spec_.parameters.size(), 1);
  if (order_.state == OrderState::kUnknown) order_.state = OrderState::kAgreed;
  return {};
}

Result<bool> Reducer::usedByAny(size_t parameter) const {
  BPS_TRY(checkParameter(parameter));
  MutexLock lock(mutex_);
  if (usage_.known.empty()) return Status(Code::kInvalidUsage, "no synchronized iteration has been finished yet");
  return usage_.known[parameter] != 0;
}

Result<size_t> Reducer::bucketOf(size_t parameter) const {
  BPS_TRY(checkParameter(parameter));
  MutexLock lock(mutex_);
  return gradients_.bucketOf(parameter);
}

std::vector<Reducer::BucketReport> Reducer::report() const {
  MutexLock lock(mutex_);
  std::vector<BucketReport> reports;
  for (const Bucket& bucket : gradients_.buckets()) {
    const size_t number = reports.size();
    const bool known = number < iteration_.times().size();
    reports.push_back({bucket.bytes, bucket.parameters.size(), bucket.queue,
                       known ? iteration_.times()[number] : Iteration::CallTimes()});
  }
  return reports;
}

void Reducer::waitForChange() { changed_.waitUntil(mutex_, Deadline::never().at()); }

}  // namespace bps::reducer
