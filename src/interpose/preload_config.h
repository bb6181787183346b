// PreloadConfig: the interposer's settings, read from the environment at the first call. Immutable. Threads: any.
#pragma once
#include "src/base/env.h"
#include "src/base/status.h"

namespace bps::interpose {

struct PreloadConfig {
  bool disabled = false;  // by BPS_DISABLE or BPS_DEVICE, also if other variables are invalid
  Env env;                // the defaults if envError
  Status envError;        // why the environment is invalid; every call then goes to NCCL
};

const PreloadConfig& preloadConfig();

}  // namespace bps::interpose
