// PreloadConfig: the settings of the interposer, which are read from the environment at the first call. A PreloadConfig
// does not change, and any thread may read it.
#pragma once
#include "src/base/env.h"
#include "src/base/status.h"

namespace bps::interpose {

struct PreloadConfig {
  bool disabled = false;  // by BPS_DISABLE or BPS_DEVICE, even if other variables are invalid
  Env env;                // the default values if envError is a failure
  Status envError;        // the reason if the environment is invalid; every call then goes to NCCL
};

const PreloadConfig& preloadConfig();

}  // namespace bps::interpose
