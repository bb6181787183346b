// The process's settings, read at the first call and never again.
#pragma once
#include "src/base/env.h"
#include "src/base/status.h"

namespace bps::interpose {

struct Settings {
  bool disabled = false;  // by BPS_DISABLE or BPS_DEVICE, whatever else is wrong
  Env env;                // the defaults when `wrong`
  Status wrong;           // what the environment is refused for, logged once; every call then goes to NCCL
};

const Settings& settings();

}  // namespace bps::interpose
