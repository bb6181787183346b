// Defines the functions of the stand-in library that only forward their calls to NCCL. All functions without a hook and
// all functions whose names begin with pnccl only forward.
#include "src/interpose/nccl/exported.h"
#include "src/nccl/real_nccl.h"

#define BPS_ARGUMENTS(...) __VA_OPT__(, ) __VA_ARGS__
#define BPS_PASS(result, name, parameters, arguments) \
  result name parameters { return ::bps::nccl::callReal(&::bps::nccl::RealNccl::name, #name BPS_ARGUMENTS arguments); }
#define BPS_PASS_PRIVATE(result, name, parameters, arguments)                                  \
  result p##name parameters {                                                                  \
    return ::bps::nccl::callReal(&::bps::nccl::RealNccl::name, #name BPS_ARGUMENTS arguments); \
  }
#define BPS_SKIP(result, name, parameters, arguments)

// NOLINTBEGIN(readability-function-size): the signatures are NCCL's
BPS_NCCL_FUNCTIONS(BPS_SKIP, BPS_PASS)
BPS_NCCL_FUNCTIONS(BPS_PASS_PRIVATE, BPS_PASS_PRIVATE)
// NOLINTEND(readability-function-size)
