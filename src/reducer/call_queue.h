// CallQueue: the calls of a reducer on one communicator, with a host stream and a thread of their own.
// The thread waits for the calls in order, and tells the reducer when each has ended.
//
// One thread at a time may use the communicator, and so call launch(). Any thread may call the other
// functions, under the reducer's mutex.
#pragma once
#include <bps/bps_ext.h>

#include <deque>
#include <functional>
#include <memory>
#include <thread>

#include "cpu_reduce/reduce.h"
#include "src/api/comm_internal.h"
#include "src/base/mutex.h"
#include "src/base/status.h"

namespace bps::reducer {

// Returns the failure of a function of the C interface, with its text.
Status fromApi(bpsResult_t result);

// An all-reduce in place.
struct BucketCall {
  size_t number = 0;  // of the call in its iteration
  void* data = nullptr;
  size_t count = 0;
  DataType type = DataType::kFloat32;
  bpsRedOp_t op = bpsSum;
};

class CallQueue {
 public:
  using Ended = std::function<void(size_t number, Status outcome)>;
  // Does not communicate. The queue's thread calls `ended` once for each launched call.
  static Result<std::unique_ptr<CallQueue>> create(bpsComm_t comm, Ended ended);
  ~CallQueue();
  // Waits until the calls have ended, and ends the thread. No call is launched any more.
  void stop();

  bpsComm_t comm() const { return comm_; }
  // From acquire() to release() the communicator is not freed, even if the program aborts it. acquire()
  // fails if the communicator has failed.
  Status acquire();
  void release() { reference_.reset(); }
  // Ends the communicator on all ranks, if it is acquired. Does not wait.
  void fail(const Status& why);
  // Makes the call. Does not wait for its end. If launch() fails, `ended` is not called.
  Status launch(const BucketCall& call);

 private:
  struct Launched {
    size_t number;
    bpsHostEvent_t event;
  };

  CallQueue(bpsComm_t comm, Ended ended) : comm_(comm), ended_(std::move(ended)) {}
  void waitForCalls();

  const bpsComm_t comm_;
  const Ended ended_;
  bpsHostStream_t stream_ = nullptr;
  std::unique_ptr<CommReference> reference_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<Launched> launched_ BPS_GUARDED_BY(mutex_);
  bool stopping_ BPS_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // runs waitForCalls()
};

}  // namespace bps::reducer
