// NCCL's types, as far as its function signatures need them. With these types bps builds without
// NCCL's headers. Sizes, values and calling conventions are those of NCCL.
// tests/abi/nccl/signatures.cc compares these types with the installed nccl.h.
//
// Types that bps only forwards are declared but not defined.
#pragma once
#include <cstddef>
#include <cstdint>

#include "bps/bps.h"  // cudaStream_t

extern "C" {

struct ncclComm;
using ncclComm_t = ncclComm*;
struct ncclWindow_vidmem;
using ncclWindow_t = ncclWindow_vidmem*;

struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t;
struct ncclSimInfo_t;
struct ncclWaitSignalDesc_t;
struct ncclParamHandle;
using ncclParamHandle_t = ncclParamHandle*;
enum ncclCommMemStat_t : unsigned int {};

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclDataType_t : int { ncclInt8 = 0, ncclFloat16 = 6, ncclFloat32 = 7, ncclFloat8e4m3 = 10, ncclNumTypes = 12 };
enum ncclRedOp_t : int { ncclSum = 0, ncclAvg = 4, ncclNumOps = 5 };
enum ncclScalarResidence_t : int { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 };
inline constexpr int kShrinkAbort = 1;  // NCCL_SHRINK_ABORT

// nccl_device.h
struct ncclTeam {
  int nRanks, rank, stride;
};
using ncclTeam_t = ncclTeam;
struct ncclDevComm;
using ncclDevComm_t = ncclDevComm;
struct ncclDevCommRequirements;
using ncclDevCommRequirements_t = ncclDevCommRequirements;
struct ncclDevResourceRequirements;
using ncclDevResourceRequirements_t = ncclDevResourceRequirements;
struct ncclLsaBarrierHandle;
using ncclLsaBarrierHandle_t = ncclLsaBarrierHandle;
struct ncclGinBarrierHandle;
using ncclGinBarrierHandle_t = ncclGinBarrierHandle;
struct ncclLLA2AHandle;
using ncclLLA2AHandle_t = ncclLLA2AHandle;

}  // extern "C"
