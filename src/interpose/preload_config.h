// The process's settings, read at the first call and never again.
#pragma once
#include "src/base/env.h"
#include "src/base/status.h"

namespace bps::interpose {

struct PreloadConfig {
  bool disabled = false;  // by BPS_DISABLE or BPS_DEVICE, whatever else is wrong
  Env env;                // the defaults when `wrong`
  Status envError;        // what the environment is refused for, logged once; every call then goes to NCCL
};

const PreloadConfig& preloadConfig();

}  // namespace bps::interpose
