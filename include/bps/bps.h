/*
 * bps: all-reduce over n worker machines with k summation servers. The public interface.
 *
 * C99, self-contained: needs neither CUDA's nor NCCL's headers. Names are NCCL's with `bps` for `nccl`; numeric values,
 * struct layouts and calling rules are NCCL's, so a program changes over by including <bps/nccl_compat.h>.
 *
 * Rules that hold for every function, as in NCCL:
 *  - Collective calls on a communicator come in the same order on all its ranks. A rank that calls with another count,
 *    type or operation gives every rank bpsInvalidUsage and a text that names both ranks and both calls.
 *  - One communicator is used by one thread at a time, except bpsCommAbort, bpsCommRevoke, bpsCommGetAsyncError and
 *    bpsGetLastError, which any thread may call at any time. Different communicators are independent.
 *  - A process that fork() makes has no part in its parent's communicators: bpsCommAbort and bpsCommDestroy do nothing
 *    there, other calls fail with bpsInvalidUsage.
 *  - A failure met after a call has returned is read with bpsCommGetAsyncError and ends the communicator: further calls
 *    on it return the same result, and bpsCommAbort or bpsCommDestroy frees it.
 */
#ifndef BPS_BPS_H_
#define BPS_BPS_H_

#include <limits.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define BPS_API __attribute__((visibility("default")))
#else
#define BPS_API
#endif

#define BPS_MAJOR 0
#define BPS_MINOR 1
#define BPS_PATCH 0
/* major * 10000 + minor * 100 + patch, as NCCL_VERSION_CODE. */
#define BPS_VERSION_CODE (BPS_MAJOR * 10000 + BPS_MINOR * 100 + BPS_PATCH)

/* CUDA's stream type as the opaque pointer it is; with host buffers, a bpsHostStream_t may stand in its place. */
#ifndef BPS_NO_CUDA_STREAM_TYPE
typedef struct CUstream_st* cudaStream_t;
#endif

typedef struct bpsComm* bpsComm_t;
/* A host stream: an ordered queue of calls on host buffers. It goes where CUDA's stream goes; NULL is the process's
 * default host stream, but where CUDA knows one of the buffers (device, managed or pinned memory) it is CUDA's legacy
 * default stream, as in NCCL. */
typedef cudaStream_t bpsHostStream_t;

#define BPS_UNIQUE_ID_BYTES 128
typedef struct {
  char internal[BPS_UNIQUE_ID_BYTES];
} bpsUniqueId;

typedef enum {
  bpsSuccess = 0,
  bpsUnhandledCudaError = 1,
  bpsSystemError = 2,
  bpsInternalError = 3,
  bpsInvalidArgument = 4,
  bpsInvalidUsage = 5,
  bpsRemoteError = 6,
  bpsInProgress = 7,
  bpsTimeout = 8,
  bpsNumResults = 9
} bpsResult_t;

typedef enum {
  bpsInt8 = 0,
  bpsChar = 0,
  bpsUint8 = 1,
  bpsInt32 = 2,
  bpsInt = 2,
  bpsUint32 = 3,
  bpsInt64 = 4,
  bpsUint64 = 5,
  bpsFloat16 = 6,
  bpsHalf = 6,
  bpsFloat32 = 7,
  bpsFloat = 7,
  bpsFloat64 = 8,
  bpsDouble = 8,
  bpsBfloat16 = 9,
  bpsFloat8e4m3 = 10,
  bpsFloat8e5m2 = 11,
  bpsNumTypes = 12
} bpsDataType_t;

/* Values are combined in stages. In each one, floating types narrower than 32 bits are combined in float, all others in
 * their own type, in a fixed order, and the stage's result is rounded to the type once, to nearest even:
 *  - the machines are one stage, in the order of their lowest rank; a job on one machine has none;
 *  - the ranks of a machine are one stage, in rank order, where buffers are in host memory and with the strategies
 *    scatter and rooted; with cpu_assisted the GPUs under each switch are one stage and the switches another, and a
 *    switch with one GPU is none; along a ring (flat_ring) every rank but the first is one. A rank alone on its machine
 *    has none. Where NCCL combines the GPUs of a machine (BPS_NCCL_LOCAL), its result is one stage for two GPUs; for
 *    more (BPS_NCCL_LOCAL=any) NCCL rounds at every step.
 * So bpsSum and bpsProd can overflow a narrow type in a stage, where the whole would not. bpsAvg of floats does not: it
 * divides by the number of ranks in the first stage, before that is rounded: the stage's sum, or, where a stage adds a
 * rank's own value to results of other stages, that value.
 * (Before it is divided the sum is a float, which bfloat16 values overflow that add up to more than 3.4e38, as float32
 * ones do.)
 * bpsAvg of integers divides the sum of all, which wraps, at the end, and truncates towards zero, as NCCL. */
typedef enum {
  bpsSum = 0,
  bpsProd = 1,
  bpsMax = 2,
  bpsMin = 3,
  bpsAvg = 4,
  bpsNumOps = 5,
  bpsMaxRedOp = 0x7fffffff /* values from bpsNumOps on are made by bpsRedOpCreatePreMulSum */
} bpsRedOp_t;

typedef enum { bpsScalarDevice = 0, bpsScalarHostImmediate = 1 } bpsScalarResidence_t;

#define BPS_CONFIG_UNDEF_INT INT_MIN
#define BPS_CONFIG_UNDEF_PTR NULL
#define BPS_SPLIT_NOCOLOR (-1)

/* As ncclConfig_t of NCCL 2.28. bps reads `blocking` (0: init and finalize return bpsInProgress at once); it accepts
 * and ignores the rest. Always start from BPS_CONFIG_INITIALIZER. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char* netName;
  int splitShare;
  int trafficClass;
  const char* commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
} bpsConfig_t;

#define BPS_CONFIG_MAGIC 0xcafebeef
#define BPS_CONFIG_INITIALIZER                                                                                        \
  {                                                                                                                   \
    sizeof(bpsConfig_t), BPS_CONFIG_MAGIC, 22809, BPS_CONFIG_UNDEF_INT, BPS_CONFIG_UNDEF_INT, BPS_CONFIG_UNDEF_INT,   \
        BPS_CONFIG_UNDEF_INT, BPS_CONFIG_UNDEF_PTR, BPS_CONFIG_UNDEF_INT, BPS_CONFIG_UNDEF_INT, BPS_CONFIG_UNDEF_PTR, \
        BPS_CONFIG_UNDEF_INT, BPS_CONFIG_UNDEF_INT, BPS_CONFIG_UNDEF_INT, BPS_CONFIG_UNDEF_INT, BPS_CONFIG_UNDEF_INT, \
        BPS_CONFIG_UNDEF_INT                                                                                          \
  }

/* ---- About the library ------------------------------------------------------------------------------------------- */

/* Writes BPS_VERSION_CODE of the library that is loaded. Any thread. bpsInvalidArgument: version is NULL. */
BPS_API bpsResult_t bpsGetVersion(int* version);

/* A constant text for a result; "unknown result code" for any other value. Any thread. */
BPS_API const char* bpsGetErrorString(bpsResult_t result);

/* What went wrong last on comm, or (comm NULL) in the calling thread; "" when nothing did. The text stays valid until
 * the calling thread's next call of this function. Any thread. */
BPS_API const char* bpsGetLastError(bpsComm_t comm);

/* ---- Communicators ----------------------------------------------------------------------------------------------- */

/* Makes the id that all ranks of one communicator pass to bpsCommInitRank; send it to them by any means. Starts the
 * rendezvous in the calling process, which ends when all ranks have met or after BPS_TIMEOUT. With BPS_ROOT set the
 * id names that address instead and rank 0 listens there. The id carries the job's secret: treat it as a password.
 * Does not wait for other ranks; for a name in BPS_ROOT it waits for the name service, at most BPS_TIMEOUT. Any thread.
 * bpsSystemError: no socket could be opened. bpsInvalidArgument: BPS_ROOT names no host. bpsInvalidUsage: BPS_ROOT
 * without BPS_KEY_FILE (and without BPS_AUTH=off), or a bad environment variable. */
BPS_API bpsResult_t bpsGetUniqueId(bpsUniqueId* uniqueId);

/* Joins the communicator as `rank` of `nranks`, on the calling thread's current CUDA device if there is any (see
 * BPS_DEVICE; nothing is allocated on it before a call needs it). Blocks until all ranks and the summation servers
 * (BPS_SERVERS, read on rank 0) have met, or BPS_TIMEOUT has passed; then the error names the missing ranks. The caller
 * owns *comm and ends it with bpsCommDestroy or bpsCommAbort; on failure *comm is NULL. Between bpsGroupStart and
 * bpsGroupEnd the work is done by bpsGroupEnd, for all communicators of the group at once.
 * bpsInvalidArgument: comm NULL, rank or nranks out of range, an id not made by bpsGetUniqueId. bpsRemoteError: a rank
 * or server is missing, died or refused. bpsInvalidUsage: ranks disagree, or a bad environment variable. */
BPS_API bpsResult_t bpsCommInitRank(bpsComm_t* comm, int nranks, bpsUniqueId commId, int rank);

/* The same with a configuration; config may be NULL. With config->blocking = 0 returns bpsInProgress at once; poll
 * bpsCommGetAsyncError until it says bpsSuccess before any other call on *comm. */
BPS_API bpsResult_t bpsCommInitRankConfig(bpsComm_t* comm, int nranks, bpsUniqueId commId, int rank,
                                          bpsConfig_t* config);

/* Joins the communicator of all processes of a job, one rank each, as its launcher says in the environment: the first
 * pair that is set of BPS_RANK and BPS_NRANKS (bps-run), RANK and WORLD_SIZE (torchrun), OMPI_COMM_WORLD_RANK and
 * OMPI_COMM_WORLD_SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH), SLURM_PROCID and SLURM_NTASKS (Slurm); without any a
 * communicator of one rank. The ranks meet at BPS_ROOT, or else at MASTER_ADDR and port MASTER_PORT + 1; several ranks
 * need the same BPS_KEY_FILE there (or BPS_AUTH=off). Blocks, fails and is grouped as bpsCommInitRank. bpsInvalidUsage:
 * a variable is no number, or there are ranks and no address to meet at or no key; the error names the variable. */
BPS_API bpsResult_t bpsCommInitFromEnv(bpsComm_t* comm);

/* All ndev ranks of a communicator in this process: comms[i] becomes rank i, on CUDA device devlist[i], or i if devlist
 * is NULL; without CUDA devices it is not used. Blocks. On failure no communicator is left. */
BPS_API bpsResult_t bpsCommInitAll(bpsComm_t* comms, int ndev, const int* devlist);

/* Collective over comm: ranks that pass the same color form a new communicator, ordered by key and then by rank.
 * BPS_SPLIT_NOCOLOR gives *newcomm = NULL. No call may be in flight on comm. config may be NULL to inherit. Blocks
 * until all ranks of comm have called it, and then (config->blocking = 0: not) until the new communicator has started.
 * Between bpsGroupStart and bpsGroupEnd the work is done, and *newcomm is set, by bpsGroupEnd. comm stays usable, also
 * if a rank does not call within BPS_TIMEOUT: the split then fails with bpsRemoteError on all ranks that have called
 * it, and on the late one when it does. */
BPS_API bpsResult_t bpsCommSplit(bpsComm_t comm, int color, int key, bpsComm_t* newcomm, bpsConfig_t* config);

/* Waits until every call issued on comm is complete, and leaves the other ranks. comm must still be destroyed.
 * Fails with the communicator's error if a call on it has failed or was refused. A non-blocking communicator returns
 * bpsInProgress at once; poll bpsCommGetAsyncError, and only destroy or abort comm meanwhile. */
BPS_API bpsResult_t bpsCommFinalize(bpsComm_t comm);

/* Finalizes if that has not been done, then frees everything. comm is invalid afterwards, also on error. */
BPS_API bpsResult_t bpsCommDestroy(bpsComm_t comm);

/* Ends all calls in flight without waiting for the other ranks, which get bpsRemoteError, and frees everything. The
 * buffers are not touched after it returns. Any thread; a call that another thread is inside of ends first. If that
 * does not happen within half a second, as where CUDA has no room for it in a stream that another communicator holds
 * up, the abort returns, and the call when it can: with an error. */
BPS_API bpsResult_t bpsCommAbort(bpsComm_t comm);

/* As bpsCommAbort, but frees nothing: for a thread that cannot know whether another is about to call with comm. All
 * calls in flight and later ones fail; comm must still be aborted or destroyed. revokeFlags is 0. Does not wait until
 * the calls have ended. Any thread. bpsInvalidArgument: another flag. */
BPS_API bpsResult_t bpsCommRevoke(bpsComm_t comm, int revokeFlags);

/* *asyncError: bpsSuccess, bpsInProgress while a non-blocking init or finalize works, or the first failure. Does not
 * wait for other ranks. Any thread. */
BPS_API bpsResult_t bpsCommGetAsyncError(bpsComm_t comm, bpsResult_t* asyncError);

/* Number of ranks; the CUDA device (0 where there is none); the caller's rank. bpsInvalidArgument: NULL, or a
 * non-blocking communicator that is not ready. */
BPS_API bpsResult_t bpsCommCount(bpsComm_t comm, int* count);
BPS_API bpsResult_t bpsCommCuDevice(bpsComm_t comm, int* device);
BPS_API bpsResult_t bpsCommUserRank(bpsComm_t comm, int* rank);

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Tells the transport of a buffer that many calls will use; *handle is passed to bpsCommDeregister. The buffer stays
 * the caller's and must outlive the registration. A hint: calls work, and give the same result, without it. */
BPS_API bpsResult_t bpsCommRegister(bpsComm_t comm, void* buffer, size_t bytes, void** handle);
BPS_API bpsResult_t bpsCommDeregister(bpsComm_t comm, void* handle);

/* Page-aligned host memory (not CUDA's), to be freed with bpsMemFree. Any thread. bytes 0 gives NULL. */
BPS_API bpsResult_t bpsMemAlloc(void** pointer, size_t bytes);
BPS_API bpsResult_t bpsMemFree(void* pointer);

/* ---- Collectives ------------------------------------------------------------------------------------------------- */

/* recvbuff[i] = op over all ranks of sendbuff[i], for `count` elements; bit for bit the same on every rank, from run to
 * run, and for every number of servers. In place when sendbuff == recvbuff; otherwise the two must not overlap. Any
 * alignment. count 0 moves nothing but keeps its place in the order of calls.
 * Queued on `stream` behind the work already there and returns without waiting: both buffers belong to bps until the
 * stream has passed the call. With a blocking wait for a host stream the calling thread may do the work.
 * A CUDA stream may be of any context and takes buffers of every kind: memory of the communicator's device, managed,
 * pinned, or pageable. It waits on the device, neither the host nor a kernel does. After a failure it goes on (where
 * NCCL combines the buffers of a machine's GPUs, BPS_NCCL_LOCAL, when the communicator is aborted), with
 * undefined results: ask bpsCommGetAsyncError.
 * bpsInvalidArgument: bad pointer, type or op; memory of another device. bpsInvalidUsage: buffers overlap in part;
 * memory of a device on a host stream; a stream that is being captured into a graph; ranks disagree (asynchronous).
 * bpsUnhandledCudaError: CUDA failed; the text says where.
 * bpsRemoteError (asynchronous): a rank or server died; the text names it. */
BPS_API bpsResult_t bpsAllReduce(const void* sendbuff, void* recvbuff, size_t count, bpsDataType_t datatype,
                                 bpsRedOp_t op, bpsComm_t comm, cudaStream_t stream);

/* Calls between start and end are issued together by the outermost end, which returns the first error: first all
 * communicators start or are split, at the same time; then the calls on communicators, in order. A communicator that
 * cannot start fails the calls on it, and its handle becomes NULL. Nests; per thread. A communicator that a group holds
 * calls of is ended by bpsCommAbort or bpsCommDestroy without them. */
BPS_API bpsResult_t bpsGroupStart(void);
BPS_API bpsResult_t bpsGroupEnd(void);

/* An operation that multiplies this rank's contribution by *scalar (of `datatype`) before summing. The scalar is read
 * now (bpsScalarHostImmediate) or when a call starts (bpsScalarDevice; memory that stays valid until then, of the host
 * or, for calls on CUDA streams, of a device). Each rank may have its own. Integer products wrap; narrow floating
 * products are formed in float, in the rank's first stage (see bpsRedOp_t), and not rounded before that is. The op is
 * valid with this communicator and type only. */
BPS_API bpsResult_t bpsRedOpCreatePreMulSum(bpsRedOp_t* op, void* scalar, bpsDataType_t datatype,
                                            bpsScalarResidence_t residence, bpsComm_t comm);
/* Frees op; calls already issued with it are not affected. */
BPS_API bpsResult_t bpsRedOpDestroy(bpsRedOp_t op, bpsComm_t comm);

/* ---- Host streams ------------------------------------------------------------------------------------------------ */

/* A new host stream, owned by the caller until bpsHostStreamDestroy, which waits for the calls in it. Any thread. */
BPS_API bpsResult_t bpsHostStreamCreate(bpsHostStream_t* stream);
BPS_API bpsResult_t bpsHostStreamDestroy(bpsHostStream_t stream);
/* bpsSuccess when every call in the stream is complete, bpsInProgress while not. Never blocks. */
BPS_API bpsResult_t bpsHostStreamQuery(bpsHostStream_t stream);
/* Waits until every call in the stream is complete; returns the first error that calls of this thread have met since it
 * last synchronized, or else the first of any thread's calls that no thread was told of. Ends within BPS_TIMEOUT of a
 * peer's death. NULL: the default stream, which all threads share. */
BPS_API bpsResult_t bpsHostStreamSynchronize(bpsHostStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* BPS_BPS_H_ */
