/*
 * NCCL's names for bps. Include this header instead of <nccl.h>, and link libbps.so. Do not include
 * <nccl.h> as well.
 *
 * The header has only the names that bps implements. A program that uses any other name of NCCL
 * fails to compile instead of failing at run time. This header is C99.
 */
#ifndef BPS_NCCL_COMPAT_H_
#define BPS_NCCL_COMPAT_H_

#include <bps/bps.h>

/* Types */
#define ncclUniqueId bpsUniqueId
#define ncclComm_t bpsComm_t
#define ncclResult_t bpsResult_t
#define ncclDataType_t bpsDataType_t
#define ncclRedOp_t bpsRedOp_t
#define ncclScalarResidence_t bpsScalarResidence_t
#define ncclConfig_t bpsConfig_t

/* Constants */
#define ncclSuccess bpsSuccess
#define ncclUnhandledCudaError bpsUnhandledCudaError
#define ncclSystemError bpsSystemError
#define ncclInternalError bpsInternalError
#define ncclInvalidArgument bpsInvalidArgument
#define ncclInvalidUsage bpsInvalidUsage
#define ncclRemoteError bpsRemoteError
#define ncclInProgress bpsInProgress
#define ncclTimeout bpsTimeout
#define ncclNumResults bpsNumResults
#define ncclInt8 bpsInt8
#define ncclChar bpsChar
#define ncclUint8 bpsUint8
#define ncclInt32 bpsInt32
#define ncclInt bpsInt
#define ncclUint32 bpsUint32
#define ncclInt64 bpsInt64
#define ncclUint64 bpsUint64
#define ncclFloat16 bpsFloat16
#define ncclHalf bpsHalf
#define ncclFloat32 bpsFloat32
#define ncclFloat bpsFloat
#define ncclFloat64 bpsFloat64
#define ncclDouble bpsDouble
#define ncclBfloat16 bpsBfloat16
#define ncclFloat8e4m3 bpsFloat8e4m3
#define ncclFloat8e5m2 bpsFloat8e5m2
#define ncclNumTypes bpsNumTypes
#define ncclSum bpsSum
#define ncclProd bpsProd
#define ncclMax bpsMax
#define ncclMin bpsMin
#define ncclAvg bpsAvg
#define ncclNumOps bpsNumOps
#define ncclMaxRedOp bpsMaxRedOp
#define ncclScalarDevice bpsScalarDevice
#define ncclScalarHostImmediate bpsScalarHostImmediate

/* Functions */
#define ncclGetVersion bpsGetVersion
#define ncclGetErrorString bpsGetErrorString
#define ncclGetLastError bpsGetLastError
#define ncclGetUniqueId bpsGetUniqueId
#define ncclCommInitRank bpsCommInitRank
#define ncclCommInitRankConfig bpsCommInitRankConfig
#define ncclCommInitAll bpsCommInitAll
#define ncclCommSplit bpsCommSplit
#define ncclCommShrink bpsCommShrink
#define ncclCommFinalize bpsCommFinalize
#define ncclCommDestroy bpsCommDestroy
#define ncclCommAbort bpsCommAbort
#define ncclCommRevoke bpsCommRevoke
#define ncclCommGetAsyncError bpsCommGetAsyncError
#define ncclCommCount bpsCommCount
#define ncclCommCuDevice bpsCommCuDevice
#define ncclCommUserRank bpsCommUserRank
#define ncclCommRegister bpsCommRegister
#define ncclCommDeregister bpsCommDeregister
#define ncclMemAlloc bpsMemAlloc
#define ncclMemFree bpsMemFree
#define ncclAllReduce bpsAllReduce
#define ncclGroupStart bpsGroupStart
#define ncclGroupEnd bpsGroupEnd
#define ncclRedOpCreatePreMulSum bpsRedOpCreatePreMulSum
#define ncclRedOpDestroy bpsRedOpDestroy

/* Macros */
#define NCCL_UNIQUE_ID_BYTES BPS_UNIQUE_ID_BYTES
#define NCCL_CONFIG_INITIALIZER BPS_CONFIG_INITIALIZER
#define NCCL_CONFIG_UNDEF_INT BPS_CONFIG_UNDEF_INT
#define NCCL_CONFIG_UNDEF_PTR BPS_CONFIG_UNDEF_PTR
#define NCCL_SPLIT_NOCOLOR BPS_SPLIT_NOCOLOR
#define NCCL_SHRINK_DEFAULT BPS_SHRINK_DEFAULT
#define NCCL_SHRINK_ABORT BPS_SHRINK_ABORT
#define NCCL_VERSION_CODE 22809 /* the NCCL release whose interface this header copies */

#endif /* BPS_NCCL_COMPAT_H_ */
