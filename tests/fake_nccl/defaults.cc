// Defines every NCCL function F under the two names `ncclF` and `pncclF`, from the interposer's
// table of functions. `ncclF` calls `pncclF`. `pncclF` records the call and returns success, unless
// functions.cc implements it.
#include <type_traits>

#include "src/interpose/nccl/exported.h"
#include "tests/fake_nccl/call_log.h"

namespace {
template <class Result>
Result success() {
  if constexpr (std::is_same_v<Result, const char*>) return "";
  else return Result();
}
}  // namespace

#define BPS_WEAK __attribute__((weak))
#define BPS_DOUBLE(result, name, parameters, arguments) \
  BPS_WEAK result p##name parameters {                  \
    bps::fake::record(#name);                           \
    return success<result>();                           \
  }                                                     \
  BPS_WEAK result name parameters { return p##name arguments; }

#pragma GCC diagnostic ignored "-Wunused-parameter"
BPS_NCCL_FUNCTIONS(BPS_DOUBLE, BPS_DOUBLE)
