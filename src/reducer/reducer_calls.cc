// The calls of a reducer: which there are, when they begin, and what happens at their end.
#include <utility>

#include "src/base/guard.h"
#include "src/reducer/reducer.h"

namespace bps::reducer {

size_t Reducer::furtherCalls() const {
  return (spec_.findUnused ? 1 : 0) + (order_.state == OrderState::kUnknown ? 1 : 0);
}

size_t Reducer::queueOf(size_t number) const { return number < bitmapCall() ? gradients_.buckets()[number].queue : 0; }

// When the calls behind the buckets begin, all parameters are marked.
BucketCall Reducer::callOf(size_t number) {
  const size_t parameters = spec_.parameters.size();
  if (number < bitmapCall()) {
    const Bucket& bucket = gradients_.buckets()[number];
    return {number, gradients_.bucketData(number), bucket.bytes / elementBytes(bucket.type), bucket.type, spec_.op};
  }
  if (spec_.findUnused && number == bitmapCall()) {
    usage_.bitmap.resize(parameters);
    for (size_t i = 0; i < parameters; ++i) usage_.bitmap[i] = gradients_.used(i) ? 1 : 0;
    return {number, usage_.bitmap.data(), parameters, DataType::kUint8, bpsMax};
  }
  order_.parameters = isRankZero_ ? iteration_.readyOrder() : std::vector<uint32_t>(parameters, 0);
  return {number, order_.parameters.data(), parameters, DataType::kUint32, bpsSum};
}

void Reducer::launchCalls() {
  if (launching_) return;
  launching_ = true;
  while (failure_.ok() && iteration_.mayLaunch()) {
    const size_t number = iteration_.launchNext();
    BucketCall call;
    Status launched = guarded([&] {
      mutex_.assertHeld();
      call = callOf(number);
    });
    mutex_.unlock();
    if (launched.ok()) launched = guarded([&] { return queues_[queueOf(number)]->launch(call); });
    mutex_.lock();
    if (launched.ok()) continue;
    iteration_.callEnded(number);
    fail(std::move(launched));
  }
  launching_ = false;
  releaseAfterFailure();
  changed_.notifyAll();
}

void Reducer::callEnded(size_t number, Status outcome) {
  if (outcome.ok() && number < bitmapCall()) gradients_.deliverUsed(number);
  MutexLock lock(mutex_);
  iteration_.callEnded(number);
  if (outcome.ok()) deliver(number);
  else fail(std::move(outcome));
  changed_.notifyAll();
}

// A bucket's parameters that this rank does not use need both the bucket and the bitmap.
void Reducer::deliver(size_t number) {
  if (!spec_.findUnused || !iteration_.ended(bitmapCall()) || !failure_.ok()) return;
  const bool all = number == bitmapCall();
  for (size_t bucket = 0; bucket < bitmapCall(); ++bucket)
    if ((all && iteration_.ended(bucket)) || bucket == number) gradients_.deliverUnused(bucket, usage_.bitmap);
}

bool Reducer::arrived(size_t parameter) const {
  if (!iteration_.ended(gradients_.bucketOf(parameter))) return false;
  return gradients_.used(parameter) || iteration_.ended(bitmapCall());
}

void Reducer::fail(Status why) {
  if (!failure_.ok()) return;
  failure_ = std::move(why);
  for (const auto& queue : queues_) queue->fail(failure_);
  releaseAfterFailure();
  changed_.notifyAll();
}

void Reducer::releaseAfterFailure() {
  if (failure_.ok() || launching_) return;
  for (const auto& queue : queues_) queue->release();
}

}  // namespace bps::reducer
