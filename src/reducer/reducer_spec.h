// ReducerSpec: what a reducer is made for. checkedSpec() makes it from the arguments of bpsReducerCreate. Any thread
// may call checkedSpec().
#pragma once
#include <bps/reducer.h>

#include <vector>

#include "src/base/status.h"
#include "src/reducer/bucket_plan.h"

namespace bps::reducer {

struct ReducerSpec {
  std::vector<Parameter> parameters;
  std::vector<bpsComm_t> comms;  // of the queues, with that of the urgent buckets
  BucketLimits limits;
  bool views = false;
  bool findUnused = true;
  bool hasDevice = false;  // the communicators have a CUDA device
  bpsRedOp_t op = bpsAvg;
};

struct ReducerArguments {
  size_t parameters;
  const size_t* counts;
  const bpsDataType_t* types;
  size_t comms;
  const bpsComm_t* list;
};

// Fails with kInvalidArgument if an argument is invalid. `config` may be null.
Result<ReducerSpec> checkedSpec(const ReducerArguments& args, const bpsReducerConfig_t* config);

}  // namespace bps::reducer
