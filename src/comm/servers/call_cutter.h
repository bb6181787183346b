// CallCutter: cuts the calls of a communicator into chunks, in call order, on the thread that makes the calls. All
// ranks cut every call alike: they have the same weights for it (ServerWeights).
//
// When the servers change, the ranks agree on the first call that has the new weights. Between a rank's proposal and
// the agreement this rank cuts no call: the progress thread holds the CallCutter.
#pragma once
#include <cstdint>

#include "cpu_reduce/reduce.h"
#include "src/base/mutex.h"
#include "src/comm/call/collective.h"
#include "src/comm/failure/first_error.h"
#include "src/comm/servers/server_weights.h"
#include "src/plan/cutter.h"
#include "src/plan/job_plan.h"

namespace bps {

class CallCutter {
 public:
  CallCutter(const Roster& roster, const JobPlan& plan)
      : weights_(roster), cutter_(plan.weights, plan.limits), plan_(plan) {}

  // Sets the chunks of the next call. While the CallCutter is held, waits for release() or for a failure of the
  // communicator. Only the thread that uses the communicator calls cut().
  Status cut(Collective& call, const FirstError& failure);
  // The cut of a parameter (asynchronous training), which all calls on it have.
  Cut cutParameter(size_t count, DataType type, const CutLimits& limits);
  // Cuts the next call as if it were the first one. All ranks call forgetCalls() between the same two calls.
  void forgetCalls() {
    MutexLock lock(mutex_);
    cutter_.forgetCalls();
  }
  // Any thread may call the functions below. After hold(), cut() waits until there was a release() for every hold().
  // Returns the number of calls that are cut.
  uint64_t hold();
  void release();
  uint64_t callsCut() const;
  ServerWeights& weights() { return weights_; }

 private:
  mutable Mutex mutex_;
  CondVar released_;
  size_t holds_ BPS_GUARDED_BY(mutex_) = 0;
  uint64_t callsCut_ BPS_GUARDED_BY(mutex_) = 0;
  ServerWeights weights_;
  Cutter cutter_ BPS_GUARDED_BY(mutex_);
  const JobPlan& plan_;
};

}  // namespace bps
