// Reducer: the state behind a bpsReducer_t (include/bps/reducer.h explains what it does).
//
// A thread that marks a parameter writes its gradient into the bucket (Gradients), and then makes the
// calls that may begin (Iteration). One thread at a time makes calls, without holding the mutex; marks
// that come meanwhile only leave it more to do. A queue per communicator (CallQueue) waits for the calls
// and delivers the averages. The waits of the program only wait for these threads.
//
// After the buckets, a synchronized iteration makes up to two more calls, on the first communicator: the
// bitmap of the parameters that ranks use, and once the order in which the gradients became ready on
// rank 0. All ranks contribute zeros to the order, except rank 0.
//
// If a communicator fails, the reducer fails the others. Otherwise a rank that has seen the failure would
// make no further calls, and another rank would wait for them on the communicators that are intact.
//
// Any thread may call mark() and wait(), and the const methods. The program calls begin() and finish() in
// one thread at a time.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "src/base/mutex.h"
#include "src/reducer/call_queue.h"
#include "src/reducer/gradients.h"
#include "src/reducer/iteration.h"
#include "src/reducer/reducer_spec.h"

namespace bps::reducer {

class Reducer {
 public:
  struct BucketReport {
    size_t bytes, parameters, queue;
    Iteration::CallTimes times;
  };

  // Does not communicate.
  static Result<std::unique_ptr<Reducer>> create(ReducerSpec spec);
  ~Reducer();

  Result<void*> view(size_t parameter) const;
  // Returns whether the views have moved.
  Result<bool> begin(bool synchronize);
  // `gradient` is null for views.
  Status mark(size_t parameter, void* gradient, bool used);
  Status wait(size_t parameter);
  Status finish();
  Result<bool> usedByAny(size_t parameter) const;
  Result<size_t> bucketOf(size_t parameter) const;
  std::vector<BucketReport> report() const;

 private:
  // Which parameters some rank uses.
  struct Usage {
    std::vector<uint8_t> bitmap;  // of the open synchronized iteration, all-reduced in place
    std::vector<uint8_t> known;   // of the last finished synchronized iteration; empty if there is none
  };
  enum class OrderState { kUnknown, kAgreed, kApplied };
  struct Order {
    std::vector<uint32_t> parameters;  // all-reduced in place
    OrderState state = OrderState::kUnknown;
  };

  Reducer(const ReducerSpec& spec, Gradients gradients, bool isRankZero);
  size_t bitmapCall() const { return gradients_.buckets().size(); }
  size_t furtherCalls() const BPS_REQUIRES(mutex_);
  Status checkParameter(size_t parameter) const;
  Status checkMark(size_t parameter, const void* gradient, bool used) BPS_REQUIRES(mutex_);
  Result<bool> applyOrder() BPS_REQUIRES(mutex_);
  BucketCall callOf(size_t number) BPS_REQUIRES(mutex_);
  size_t queueOf(size_t number) const;
  void launchCalls() BPS_REQUIRES(mutex_);
  void callEnded(size_t number, Status outcome);
  void deliver(size_t number) BPS_REQUIRES(mutex_);
  bool arrived(size_t parameter) const BPS_REQUIRES(mutex_);
  // Keeps the first failure, and ends all communicators.
  void fail(Status why) BPS_REQUIRES(mutex_);
  // After a failure, no thread uses the communicators again. So the program may free them.
  void releaseAfterFailure() BPS_REQUIRES(mutex_);
  void waitForChange() BPS_REQUIRES(mutex_);

  const ReducerSpec spec_;
  const bool isRankZero_;
  mutable Mutex mutex_;
  CondVar changed_;
  Gradients gradients_;  // gradients.h explains who may use it
  Iteration iteration_ BPS_GUARDED_BY(mutex_);
  Usage usage_ BPS_GUARDED_BY(mutex_);
  Order order_ BPS_GUARDED_BY(mutex_);
  Status failure_ BPS_GUARDED_BY(mutex_);
  bool launching_ BPS_GUARDED_BY(mutex_) = false;  // a thread makes calls
  std::vector<std::unique_ptr<CallQueue>> queues_;
};

}  // namespace bps::reducer
