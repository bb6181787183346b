// Declares the exported functions. If the signature of a hook differs from the signature in nccl/functions.h, the hook
// does not compile.
#pragma once
#include "src/nccl/functions.h"
#include "src/nccl/types.h"

extern "C" {
#define BPS_DECLARE(result, name, parameters, arguments) \
  BPS_API result name parameters;                        \
  BPS_API result p##name parameters;
BPS_NCCL_FUNCTIONS(BPS_DECLARE, BPS_DECLARE)
#undef BPS_DECLARE
}
