// The CUDA driver of this machine, loaded at run time, since most machines that run bps have none. Threads: any.
#pragma once
#include "src/base/env.h"
#include "src/base/status.h"
#include "src/cuda/cuda_api.h"

namespace bps::cuda {

// The driver, initialised, with at least one device. The first answer stays; the driver is never unloaded.
Result<const Api*> driver();

// Returns null, which means host memory, if BPS_DEVICE is `host`, or if it is `auto` and there is no driver or device.
// With `cuda` a missing driver or device is an error.
Result<const Api*> driverForEnv(const Env& env);

// Success, or a failure that names the function and has the driver's text.
Status check(const Api& api, int error, const char* function);

}  // namespace bps::cuda
