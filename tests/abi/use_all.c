/* Uses every declaration of the public headers as C99 code. A change of a type, value or layout fails the test. */
#include <bps/bps_ext.h>
#include <bps/nccl_compat.h>
#include <bps/params.h>
#include <bps/reducer.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* A static assertion for C99, which has no keyword for it. */
#define HOLDS(name, condition) typedef char holds_##name[(condition) ? 1 : -1]

HOLDS(unique_id, sizeof(bpsUniqueId) == 128 && BPS_UNIQUE_ID_BYTES == 128 && NCCL_UNIQUE_ID_BYTES == 128);
HOLDS(results, bpsSuccess == 0 && bpsUnhandledCudaError == 1 && bpsSystemError == 2 && bpsInternalError == 3 &&
                   bpsInvalidArgument == 4 && bpsInvalidUsage == 5 && bpsRemoteError == 6 && bpsInProgress == 7 &&
                   bpsTimeout == 8 && bpsNumResults == 9);
HOLDS(types, bpsInt8 == 0 && bpsChar == 0 && bpsUint8 == 1 && bpsInt32 == 2 && bpsInt == 2 && bpsUint32 == 3 &&
                 bpsInt64 == 4 && bpsUint64 == 5 && bpsFloat16 == 6 && bpsHalf == 6 && bpsFloat32 == 7 &&
                 bpsFloat == 7 && bpsFloat64 == 8 && bpsDouble == 8 && bpsBfloat16 == 9 && bpsFloat8e4m3 == 10 &&
                 bpsFloat8e5m2 == 11 && bpsNumTypes == 12);
HOLDS(ops, bpsSum == 0 && bpsProd == 1 && bpsMax == 2 && bpsMin == 3 && bpsAvg == 4 && bpsNumOps == 5 &&
               bpsMaxRedOp == 0x7fffffff);
HOLDS(residence, bpsScalarDevice == 0 && bpsScalarHostImmediate == 1);
HOLDS(enum_size, sizeof(bpsResult_t) == 4 && sizeof(bpsDataType_t) == 4 && sizeof(bpsRedOp_t) == 4);
HOLDS(config_head, offsetof(bpsConfig_t, magic) == 8 && offsetof(bpsConfig_t, version) == 12 &&
                       offsetof(bpsConfig_t, blocking) == 16 && offsetof(bpsConfig_t, cgaClusterSize) == 20 &&
                       offsetof(bpsConfig_t, minCTAs) == 24 && offsetof(bpsConfig_t, maxCTAs) == 28);
HOLDS(config_tail, offsetof(bpsConfig_t, netName) == 32 && offsetof(bpsConfig_t, splitShare) == 40 &&
                       offsetof(bpsConfig_t, trafficClass) == 44 && offsetof(bpsConfig_t, commName) == 48 &&
                       offsetof(bpsConfig_t, collnetEnable) == 56 && offsetof(bpsConfig_t, CTAPolicy) == 60 &&
                       offsetof(bpsConfig_t, shrinkShare) == 64 && offsetof(bpsConfig_t, nvlsCTAs) == 68 &&
                       offsetof(bpsConfig_t, nChannelsPerNetPeer) == 72 &&
                       offsetof(bpsConfig_t, nvlinkCentricSched) == 76);
HOLDS(version, BPS_VERSION_CODE == BPS_MAJOR * 10000 + BPS_MINOR * 100 + BPS_PATCH);
HOLDS(undefined, NCCL_SPLIT_NOCOLOR == -1 && NCCL_CONFIG_UNDEF_INT == BPS_CONFIG_UNDEF_INT);
HOLDS(shrink_flags, NCCL_SHRINK_DEFAULT == 0 && NCCL_SHRINK_ABORT == 1);

/* Names every function with its exact type. If a signature differs, this file does not compile. */
struct Functions {
  bpsResult_t (*getVersion)(int*);
  const char* (*getErrorString)(bpsResult_t);
  const char* (*getLastError)(bpsComm_t);
  bpsResult_t (*getUniqueId)(bpsUniqueId*);
  bpsResult_t (*commInitRank)(bpsComm_t*, int, bpsUniqueId, int);
  bpsResult_t (*commInitRankConfig)(bpsComm_t*, int, bpsUniqueId, int, bpsConfig_t*);
  bpsResult_t (*commInitAll)(bpsComm_t*, int, const int*);
  bpsResult_t (*commInitFromEnv)(bpsComm_t*);
  bpsResult_t (*commSplit)(bpsComm_t, int, int, bpsComm_t*, bpsConfig_t*);
  bpsResult_t (*commShrink)(bpsComm_t, int*, int, bpsComm_t*, bpsConfig_t*, int);
  bpsResult_t (*withComm[3])(bpsComm_t);
  bpsResult_t (*commRevoke)(bpsComm_t, int);
  bpsResult_t (*commGetAsyncError)(bpsComm_t, bpsResult_t*);
  bpsResult_t (*withNumber[3])(bpsComm_t, int*);
  bpsResult_t (*commRegister)(bpsComm_t, void*, size_t, void**);
  bpsResult_t (*commDeregister)(bpsComm_t, void*);
  bpsResult_t (*memAlloc)(void**, size_t);
  bpsResult_t (*memFree)(void*);
  bpsResult_t (*allReduce)(const void*, void*, size_t, bpsDataType_t, bpsRedOp_t, bpsComm_t, cudaStream_t);
  bpsResult_t (*group[2])(void);
  bpsResult_t (*redOpCreatePreMulSum)(bpsRedOp_t*, void*, bpsDataType_t, bpsScalarResidence_t, bpsComm_t);
  bpsResult_t (*redOpDestroy)(bpsRedOp_t, bpsComm_t);
  bpsResult_t (*hostStreamCreate)(bpsHostStream_t*);
  bpsResult_t (*withStream[3])(bpsHostStream_t);
  bpsResult_t (*commDescribe)(bpsComm_t, char*, size_t);
  bpsResult_t (*hostEventRecord)(bpsHostEvent_t*, bpsHostStream_t);
  bpsResult_t (*withEvent[2])(const bpsHostEvent_t*);
  bpsResult_t (*commSetPriority)(bpsComm_t, int);
  bpsResult_t (*reducerCreate)(bpsReducer_t*, size_t, const size_t*, const bpsDataType_t*, size_t, const bpsComm_t*,
                               const bpsReducerConfig_t*);
  bpsResult_t (*withReducer[2])(bpsReducer_t);
  bpsResult_t (*reducerBegin)(bpsReducer_t, int, int*);
  bpsResult_t (*reducerGradient)(bpsReducer_t, size_t, void**);
  bpsResult_t (*withGradient[2])(bpsReducer_t, size_t, void*);
  bpsResult_t (*reducerWait)(bpsReducer_t, size_t);
  bpsResult_t (*reducerUsed)(bpsReducer_t, size_t, int*);
  bpsResult_t (*reducerBucketOf)(bpsReducer_t, size_t, size_t*);
  bpsResult_t (*reducerStats)(bpsReducer_t, bpsReducerBucket_t*, size_t*);
  bpsResult_t (*paramInit)(bpsComm_t, uint64_t, void*, size_t, bpsDataType_t);
  bpsResult_t (*paramPush)(bpsComm_t, uint64_t, const void*, size_t, bpsDataType_t, cudaStream_t);
  bpsResult_t (*paramPull)(bpsComm_t, uint64_t, void*, size_t, bpsDataType_t, cudaStream_t);
  bpsResult_t (*paramPushPull)(bpsComm_t, uint64_t, const void*, void*, size_t, bpsDataType_t, cudaStream_t);
  bpsResult_t (*paramBarrier)(bpsComm_t);
  bpsResult_t (*paramPushes)(bpsComm_t, uint64_t, uint64_t*);
};

static const struct Functions kFunctions = {
    bpsGetVersion,
    bpsGetErrorString,
    bpsGetLastError,
    bpsGetUniqueId,
    bpsCommInitRank,
    bpsCommInitRankConfig,
    bpsCommInitAll,
    bpsCommInitFromEnv,
    bpsCommSplit,
    bpsCommShrink,
    {bpsCommFinalize, bpsCommDestroy, bpsCommAbort},
    bpsCommRevoke,
    bpsCommGetAsyncError,
    {bpsCommCount, bpsCommCuDevice, bpsCommUserRank},
    bpsCommRegister,
    bpsCommDeregister,
    bpsMemAlloc,
    bpsMemFree,
    bpsAllReduce,
    {bpsGroupStart, bpsGroupEnd},
    bpsRedOpCreatePreMulSum,
    bpsRedOpDestroy,
    bpsHostStreamCreate,
    {bpsHostStreamDestroy, bpsHostStreamQuery, bpsHostStreamSynchronize},
    bpsCommDescribe,
    bpsHostEventRecord,
    {bpsHostEventQuery, bpsHostEventSynchronize},
    bpsCommSetPriority,
    bpsReducerCreate,
    {bpsReducerFinish, bpsReducerDestroy},
    bpsReducerBegin,
    bpsReducerGradient,
    {bpsReducerReady, bpsReducerUnused},
    bpsReducerWait,
    bpsReducerUsed,
    bpsReducerBucketOf,
    bpsReducerStats,
    bpsParamInit,
    bpsParamPush,
    bpsParamPull,
    bpsParamPushPull,
    bpsParamBarrier,
    bpsParamPushes,
};

/* The configuration and the report of a reducer. */
HOLDS(reducer_config, offsetof(bpsReducerConfig_t, bucketBytes) == 8 &&
                          offsetof(bpsReducerConfig_t, firstBucketBytes) == 16 &&
                          offsetof(bpsReducerConfig_t, gradientsAreViews) == 24 &&
                          offsetof(bpsReducerConfig_t, findUnusedParameters) == 28 &&
                          offsetof(bpsReducerConfig_t, op) == 32 && offsetof(bpsReducerConfig_t, urgentComm) == 40 &&
                          offsetof(bpsReducerConfig_t, urgentBytes) == 48 && sizeof(bpsReducerConfig_t) == 56);
HOLDS(reducer_bucket, offsetof(bpsReducerBucket_t, communicator) == 16 &&
                          offsetof(bpsReducerBucket_t, readySeconds) == 24 && sizeof(bpsReducerBucket_t) == 48);

/* Averages one gradient on a single rank. Returns the number of the failed step, or 0. */
static int reduceAlone(bpsComm_t comm) {
  const bpsReducerConfig_t config = BPS_REDUCER_CONFIG_INITIALIZER;
  const bpsDataType_t type = bpsFloat32;
  const size_t count = 2;
  float gradient[2] = {1.5F, -2.0F};
  bpsReducer_t reducer = NULL;
  if (config.size != sizeof config || config.bucketBytes != 26214400 || config.firstBucketBytes != 1048576) return 11;
  if (bpsReducerCreate(&reducer, 1, &count, &type, 1, &comm, &config) != bpsSuccess) return 12;
  if (bpsReducerBegin(reducer, 1, NULL) != bpsSuccess) return 13;
  if (bpsReducerReady(reducer, 0, gradient) != bpsSuccess) return 14;
  if (bpsReducerFinish(reducer) != bpsSuccess || gradient[1] != -2.0F) return 15;
  return bpsReducerDestroy(reducer) == bpsSuccess ? 0 : 16;
}

/* Runs an all-reduce on a single rank through NCCL's function names. Returns the number of the failed step, or 0. */
static int sumAlone(void) {
  ncclComm_t comm = NULL;
  float values[3] = {1.5F, -2.0F, 3.25F};
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  if (config.size != sizeof config || config.magic != BPS_CONFIG_MAGIC) return 1;
  if (ncclCommInitAll(&comm, 1, NULL) != ncclSuccess) return 2;
  if (ncclAllReduce(values, values, 3, ncclFloat32, ncclSum, comm, NULL) != ncclSuccess) return 3;
  if (bpsHostStreamSynchronize(NULL) != bpsSuccess || values[2] != 3.25F) return 4;
  const int failed = reduceAlone(comm);
  return ncclCommDestroy(comm) == ncclSuccess ? failed : 5;
}

int main(void) {
  int version = 0;
  if (kFunctions.getVersion(&version) != bpsSuccess || version != BPS_VERSION_CODE) return 10;
  if (strcmp(kFunctions.getErrorString(bpsSuccess), kFunctions.getErrorString(bpsRemoteError)) == 0) return 11;
  const int failed = sumAlone();
  if (failed != 0) printf("step %d: %s\n", failed, bpsGetLastError(NULL));
  return failed;
}
