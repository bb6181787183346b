// The CUDA driver of this machine, loaded at run time, since most machines that run bps have none. Threads: any.
#pragma once
#include "src/base/env.h"
#include "src/base/status.h"
#include "src/cuda/cuda_api.h"

namespace bps::cuda {

// The driver, initialised, with at least one device. The first answer stays; the driver is never unloaded.
Result<const Api*> driver();

// The driver for BPS_DEVICE. Null: use host memory, with `host`, or with `auto` if there is no driver or device. `cuda`
// fails then.
Result<const Api*> driverForEnv(const Env& env);

// Success, or a failure that names the function and has the driver's text.
Status check(const Api& api, int error, const char* function);

}  // namespace bps::cuda
