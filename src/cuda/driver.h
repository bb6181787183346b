// The CUDA driver of this machine, found at run time: there is none on most machines that build or run bps.
#pragma once
#include "src/base/env.h"
#include "src/base/status.h"
#include "src/cuda/cuda_api.h"

namespace bps::cuda {

// The driver, initialised, with at least one device; the same answer each time. It is never unloaded.
Result<const Api*> driver();

// What BPS_DEVICE asks for: null for the host; with `auto` also where there is no driver or no device, which `cuda`
// makes a failure.
Result<const Api*> driverForEnv(const Env& env);

// A failure that names the function and the driver's text for the error; nothing for success.
Status check(const Api& api, int error, const char* function);

}  // namespace bps::cuda
