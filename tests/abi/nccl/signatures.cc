// Checks bps's table of NCCL's functions (src/nccl/functions.h) against the installed nccl.h: it compiles only if the
// signatures match and bps's own declarations of the argument types have the same layout.
//
// tests/multiproc/nccl_signatures.sh builds it twice: with NCCL's headers, and with bps's own declarations (-DOURS).
#ifdef OURS
#include "src/nccl/types.h"
#else
#include <nccl.h>
#if __has_include(<nccl_device.h>)
#include <nccl_device.h>
#define WITH_DEVICE
#endif
#endif
#include <cstdio>
#include <type_traits>

#include "src/nccl/functions.h"

#ifndef OURS
// Compares a row with the header's declaration. A pointer of the row's type selects the overload for host code.
#define COMPARE(result, name, parameters, arguments) [[maybe_unused]] result(*const name##Pointer) parameters = &name;
#ifndef WITH_DEVICE
#undef BPS_NCCL_DEVICE_FUNCTIONS
#define BPS_NCCL_DEVICE_FUNCTIONS(PASS)
#endif
BPS_NCCL_FUNCTIONS(COMPARE, COMPARE)
#endif

// Both programs must print the same text.
int main() {
#define NUMBER(what) std::printf("%s %lld\n", #what, static_cast<long long>(what))
  NUMBER(sizeof(ncclUniqueId));
  NUMBER(sizeof(ncclResult_t));
  NUMBER(sizeof(ncclDataType_t));
  NUMBER(sizeof(ncclRedOp_t));
  NUMBER(sizeof(ncclScalarResidence_t));
  NUMBER(sizeof(ncclTeam_t));
  NUMBER(ncclSuccess);
  NUMBER(ncclUnhandledCudaError);
  NUMBER(ncclSystemError);
  NUMBER(ncclInternalError);
  NUMBER(ncclInvalidArgument);
  NUMBER(ncclInvalidUsage);
  NUMBER(ncclRemoteError);
  NUMBER(ncclInProgress);
  NUMBER(ncclInt8);
  NUMBER(ncclFloat32);
  NUMBER(ncclNumTypes);
  NUMBER(ncclSum);
  NUMBER(ncclAvg);
  NUMBER(ncclNumOps);
  NUMBER(ncclScalarDevice);
  NUMBER(ncclScalarHostImmediate);
}
