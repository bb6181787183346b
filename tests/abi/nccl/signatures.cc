// Compiles where src/nccl/functions.h has NCCL's functions with the signatures of the nccl.h that is
// installed, and where our own declarations of what they take have its layout. Built by
// tests/multiproc/nccl_signatures.sh.
//
// Built twice: with NCCL's headers, which compares the table, and with our own declarations (-DOURS).
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
// Each row against the header's declaration; overloads for device code aside, so a pointer of the row's type is taken.
#define COMPARE(result, name, parameters, arguments) [[maybe_unused]] result(*const name##Pointer) parameters = &name;
#ifndef WITH_DEVICE
#undef BPS_NCCL_DEVICE_FUNCTIONS
#define BPS_NCCL_DEVICE_FUNCTIONS(PASS)
#endif
BPS_NCCL_FUNCTIONS(COMPARE, COMPARE)
#endif

// What the two runs must print alike.
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
