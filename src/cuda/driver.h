// The CUDA driver of this machine. It is loaded at run time, because most machines that run bps
// have none. Any thread may call these functions.
#pragma once
#include "src/base/env.h"
#include "src/base/status.h"
#include "src/cuda/cuda_api.h"

namespace bps::cuda {

// Returns the initialised driver, which has at least one device. Later calls return the same
// result, and the driver is never unloaded.
Result<const Api*> driver();

// Returns null, which means host memory, if BPS_DEVICE is `host`. If BPS_DEVICE is `cuda`, a
// missing driver or device is an error. In all other cases a missing driver or device also gives
// null.
Result<const Api*> driverForEnv(const Env& env);

// Returns success, or a failure that names the function and contains the driver's error text.
Status check(const Api& api, int error, const char* function);

}  // namespace bps::cuda
