// Checks bps's table of NCCL's functions (src/nccl/functions.h) against the installed nccl.h. This file compiles only
// if the signatures in the table match those in nccl.h. The program prints the layout of every argument type.
//
// tests/multiproc/nccl_signatures.sh builds this file twice: with NCCL's headers, and with bps's own declarations
// (-DOURS). The script then compares the output of the two programs.
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
// Compares a row of the table with the declaration in nccl.h. If a function is overloaded, a pointer of the row's type
// selects the overload for host code.
#define COMPARE(result, name, parameters, arguments) [[maybe_unused]] result(*const name##Pointer) parameters = &name;
#ifndef WITH_DEVICE
#undef BPS_NCCL_DEVICE_FUNCTIONS
#define BPS_NCCL_DEVICE_FUNCTIONS(PASS)
#endif
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 30, 7)
#undef BPS_NCCL_NEWER_FUNCTIONS
#define BPS_NCCL_NEWER_FUNCTIONS(PASS)
#endif
BPS_NCCL_FUNCTIONS(COMPARE, COMPARE)
#endif

// The program built with -DOURS and the program built without it must print the same text.
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
