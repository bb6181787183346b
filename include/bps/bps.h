/*
 * bps: all-reduce over n worker machines with k summation servers. This header is the public
 * interface.
 *
 * The header is C99 and includes neither CUDA's nor NCCL's headers. Its names are NCCL's names with
 * `bps` in place of `nccl`. Numeric values, struct layouts and calling rules are those of NCCL. A
 * program written for NCCL changes over by including <bps/nccl_compat.h>.
 *
 * Every function follows these rules, as in NCCL:
 *  - All ranks of a communicator make their collective calls on it in the same order. If a rank
 *    calls with another count, type or operation, every rank gets bpsInvalidUsage. The error text
 *    names two ranks that disagree and the call of each.
 *  - Only one thread at a time may use a communicator. But any thread may call bpsCommAbort,
 *    bpsCommRevoke, bpsCommGetAsyncError and bpsGetLastError at any time. Different communicators
 *    are independent of each other.
 *  - A child process made by fork() cannot use a communicator of its parent. In the child,
 *    bpsCommAbort and bpsCommDestroy do nothing on the parent's communicator, and all other calls
 *    on it fail with bpsInvalidUsage.
 *  - bpsCommGetAsyncError reports a failure that occurs after a call has returned. A failure ends
 *    its communicator: every later call on the communicator returns the same result. The program
 *    must then free the communicator with bpsCommAbort or bpsCommDestroy.
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
/* The version as one number, computed as NCCL_VERSION_CODE: major * 10000 + minor * 100 + patch. */
#define BPS_VERSION_CODE (BPS_MAJOR * 10000 + BPS_MINOR * 100 + BPS_PATCH)

/* The version of the header that a program was compiled with. The program's constant takes the place
 * of the library's own, so the library can compare the two (see bpsGetVersion). A program that
 * defines BPS_NO_HEADER_VERSION is not compared. */
#if defined(__GNUC__) && !defined(BPS_NO_HEADER_VERSION)
extern const int bpsHeaderVersion __attribute__((weak, visibility("default")));
const int bpsHeaderVersion = BPS_VERSION_CODE;
#endif

/* CUDA's stream type, declared as an opaque pointer, as CUDA declares it. For calls on host
 * buffers, a bpsHostStream_t may be passed instead of a cudaStream_t. */
#ifndef BPS_NO_CUDA_STREAM_TYPE
typedef struct CUstream_st* cudaStream_t;
#endif

typedef struct bpsComm* bpsComm_t;
/* A host stream is an ordered queue of calls on host buffers. Pass a host stream wherever a
 * function takes a CUDA stream. The stream NULL is the default host stream of the process. But
 * if CUDA knows one of the buffers (device, managed or pinned memory), the stream NULL is CUDA's
 * legacy default stream, as in NCCL. */
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

/* bps combines values in stages. Within a stage, floating types narrower than 32 bits are
 * combined in float, and all other types in their own type. The order within a stage is fixed.
 * The result of a stage is rounded to the type once, to nearest even. The stages are:
 *  - The machines of a job form one stage, in the order of their lowest ranks. A job on one
 *    machine has no such stage.
 *  - The ranks of a machine form one stage, in rank order, if the buffers are in host memory or
 *    the strategy is scatter or rooted. A rank that is alone on its machine has no such stage.
 *  - With the strategy cpu_assisted, the GPUs under each switch form one stage, and the switches
 *    of a machine form another. A switch with one GPU has no stage.
 *  - With the strategy flat_ring, every rank of a machine except the first is one stage.
 *  - If NCCL combines the two GPUs of a machine (BPS_NCCL_LOCAL), NCCL's result is one stage. If
 *    NCCL combines more than two GPUs (BPS_NCCL_LOCAL=any), NCCL rounds at every step.
 * bpsSum and bpsProd can therefore overflow a narrow type within a stage, even if the final
 * result would fit the type.
 *
 * bpsAvg of floating types does not overflow in a stage, because it divides by the number of ranks
 * before the result of the first stage is rounded. In most cases bpsAvg divides the sum of the
 * first stage. If the first stage adds a rank's own value to results of other stages, bpsAvg
 * divides only the rank's own value. Before bpsAvg divides a sum, the sum is a float. This float
 * overflows if bfloat16 or float32 values add up to more than 3.4e38.
 *
 * bpsAvg of integers divides the sum of all ranks at the end and truncates towards zero, as in
 * NCCL. If that integer sum overflows, it wraps around. */
typedef enum {
  bpsSum = 0,
  bpsProd = 1,
  bpsMax = 2,
  bpsMin = 3,
  bpsAvg = 4,
  bpsNumOps = 5,
  bpsMaxRedOp = 0x7fffffff /* bpsRedOpCreatePreMulSum returns values from bpsNumOps on */
} bpsRedOp_t;

typedef enum { bpsScalarDevice = 0, bpsScalarHostImmediate = 1 } bpsScalarResidence_t;

#define BPS_CONFIG_UNDEF_INT INT_MIN
#define BPS_CONFIG_UNDEF_PTR NULL
#define BPS_SPLIT_NOCOLOR (-1)
/* Flags of bpsCommShrink. */
#define BPS_SHRINK_DEFAULT 0x00
#define BPS_SHRINK_ABORT 0x01

/* The same fields as in ncclConfig_t of NCCL 2.28. bps uses only `blocking`, and accepts and
 * ignores the other settings. If `blocking` is 0, init and finalize return bpsInProgress at
 * once. Always initialize a bpsConfig_t with BPS_CONFIG_INITIALIZER. */
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

/* Writes BPS_VERSION_CODE of the loaded library to *version. Fails with bpsInvalidArgument if
 * version is NULL. Any thread may call this function.
 *
 * A program may run with a library of another version than its header if both have the same major
 * number and the library's minor number is not smaller. While the major number is 0, the minor
 * numbers must be equal. If the versions do not fit, bpsGetUniqueId and the functions that start a
 * communicator fail with bpsInvalidUsage, and the error names both versions. */
BPS_API bpsResult_t bpsGetVersion(int* version);

/* Returns a constant text for a result, or "unknown result code" for any other value. Any thread
 * may call this function. */
BPS_API const char* bpsGetErrorString(bpsResult_t result);

/* Returns the text of the last failure on comm, or, if comm is NULL, of the last failure in the
 * calling thread. Returns "" if nothing has failed. The text stays valid until the same thread
 * calls bpsGetLastError again. Any thread may call bpsGetLastError. */
BPS_API const char* bpsGetLastError(bpsComm_t comm);

/* ---- Communicators ----------------------------------------------------------------------------------------------- */

/* Makes the id that all ranks of one communicator pass to bpsCommInitRank. The program sends the
 * id to the other ranks by any means. The id contains the secret of the job, so treat it as a
 * password.
 *
 * The rendezvous starts in the calling process. The rendezvous ends when all ranks have met, or
 * after BPS_TIMEOUT. If BPS_ROOT is set, the id names that address instead, and rank 0 listens
 * there. The function does not wait for other ranks. If BPS_ROOT contains a host name, the function
 * waits for the name service, at most BPS_TIMEOUT. Any thread may call this function.
 *
 * Fails with bpsSystemError if no socket can be opened, and with bpsInvalidArgument if BPS_ROOT
 * names no host. Fails with bpsInvalidUsage if an environment variable is invalid, or if
 * BPS_ROOT is set without BPS_KEY_FILE and BPS_AUTH is not off. */
BPS_API bpsResult_t bpsGetUniqueId(bpsUniqueId* uniqueId);

/* Joins the communicator as rank `rank` of `nranks` ranks. The communicator uses the calling
 * thread's current CUDA device, if there is one (see BPS_DEVICE). The communicator allocates
 * nothing on the device before a call needs the device. The caller frees *comm with bpsCommDestroy
 * or bpsCommAbort. On failure *comm is NULL.
 *
 * The function waits until all ranks and the summation servers have met. Rank 0 reads the
 * servers from BPS_SERVERS. If BPS_TIMEOUT passes first, the function fails, and the error names
 * the missing ranks. Between bpsGroupStart and bpsGroupEnd the function only records the start.
 * bpsGroupEnd then starts all communicators of the group at the same time.
 *
 * Fails with bpsInvalidArgument if comm is NULL, if rank or nranks is out of range, or if
 * bpsGetUniqueId did not make the id. Fails with bpsRemoteError if a rank or server is missing,
 * has died or has refused to take part. Fails with bpsInvalidUsage if the ranks disagree or an
 * environment variable is invalid. */
BPS_API bpsResult_t bpsCommInitRank(bpsComm_t* comm, int nranks, bpsUniqueId commId, int rank);

/* As bpsCommInitRank, but with a configuration; config may be NULL. If config->blocking is 0,
 * the function returns bpsInProgress at once. The program must then poll bpsCommGetAsyncError
 * until it reports bpsSuccess, before it makes any other call on *comm. */
BPS_API bpsResult_t bpsCommInitRankConfig(bpsComm_t* comm, int nranks, bpsUniqueId commId, int rank,
                                          bpsConfig_t* config);

/* Joins one communicator of all processes of a job, with one rank in each process. The launcher
 * of the processes sets the rank and the number of ranks in the environment. The function uses
 * the first of these pairs of variables that is set:
 *   BPS_RANK and BPS_NRANKS                        bps-run
 *   RANK and WORLD_SIZE                            torchrun
 *   OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE  Open MPI
 *   PMI_RANK and PMI_SIZE                          MPICH
 *   SLURM_PROCID and SLURM_NTASKS                  Slurm
 * If no pair is set, the communicator has one rank. The ranks meet at BPS_ROOT. If BPS_ROOT is not
 * set, the ranks meet at MASTER_ADDR, port MASTER_PORT + 1. If there are several ranks, all ranks
 * need the same BPS_KEY_FILE (or BPS_AUTH=off).
 *
 * The function blocks, fails and takes part in groups in the same way as bpsCommInitRank.
 * bpsCommInitFromEnv fails with bpsInvalidUsage if a variable is not a number, or if several
 * ranks have no address or no key. The error names the variable. */
BPS_API bpsResult_t bpsCommInitFromEnv(bpsComm_t* comm);

/* Starts all ndev ranks of a communicator in this process. comms[i] becomes rank i, on CUDA
 * device devlist[i]. If devlist is NULL, rank i uses device i. Without CUDA devices, devlist is
 * ignored. The function blocks. If bpsCommInitAll fails, no communicator remains. */
BPS_API bpsResult_t bpsCommInitAll(bpsComm_t* comms, int ndev, const int* devlist);

/* Splits comm; all ranks of comm must call it. Ranks that pass the same color form a new
 * communicator, ordered by key and then by rank. A rank that passes BPS_SPLIT_NOCOLOR gets
 * *newcomm = NULL. No call may be in flight on comm. If config is NULL, the new communicator
 * inherits the configuration of comm.
 *
 * The function waits until all ranks of comm have called bpsCommSplit. Unless config->blocking is
 * 0, it then waits until the new communicator has started. Between bpsGroupStart and bpsGroupEnd
 * the split is only recorded. bpsGroupEnd then splits comm and sets *newcomm.
 *
 * If a rank does not call within BPS_TIMEOUT, the split fails with bpsRemoteError on every rank
 * that has called. The split also fails on the late rank when that rank calls bpsCommSplit. comm
 * stays usable, even after a failed split. */
BPS_API bpsResult_t bpsCommSplit(bpsComm_t comm, int color, int key, bpsComm_t* newcomm, bpsConfig_t* config);

/* Makes a communicator of the ranks of comm that are not in excludeRanksList, in the same order. All
 * these ranks must call it with the same list; the excluded ranks must not call it. This function is
 * for the loss of ranks: the ranks that remain go on with a smaller communicator. Rank 0 may be
 * among the lost ranks. bpsGetLastError(comm) names the rank that was lost first, but the program
 * itself must find out about all lost ranks. The list has at least one rank, and not the caller.
 *
 * With BPS_SHRINK_DEFAULT no call may be in flight on comm, and comm must not have failed; but
 * bpsCommRevoke may have ended its calls. With BPS_SHRINK_ABORT the function first ends all calls
 * on comm, as bpsCommAbort does, and comm may have failed. The function does not free comm. With
 * BPS_SHRINK_DEFAULT comm stays usable, also for the excluded ranks.
 *
 * The lowest rank that remains becomes rank 0 and reads the servers from its BPS_SERVERS. If config
 * is NULL, the new communicator inherits the configuration of comm. The function blocks, and takes
 * part in groups, in the same way as bpsCommInitRankConfig. A communicator can shrink several
 * times, one shrink after the other.
 *
 * Fails with bpsInvalidArgument if a pointer is NULL, if the flags or the list are invalid, or if the
 * lowest remaining rank has another list. Fails with bpsInvalidUsage if comm has been finalized.
 * Fails with bpsRemoteError if a remaining rank does not call within BPS_TIMEOUT; the error names
 * this rank by its number in comm. After such a failure the ranks may call the function again. If
 * comm has failed and shrinkFlags is BPS_SHRINK_DEFAULT, returns the failure of comm. */
BPS_API bpsResult_t bpsCommShrink(bpsComm_t comm, int* excludeRanksList, int excludeRanksCount, bpsComm_t* newcomm,
                                  bpsConfig_t* config, int shrinkFlags);

/* Waits until every call on comm is complete, and then leaves the other ranks. The program must
 * still destroy comm afterwards. Fails with the communicator's error if a call on comm has
 * failed or was refused. On a non-blocking communicator the function returns bpsInProgress at
 * once. The program must then poll bpsCommGetAsyncError. Until finalization has ended, the
 * program may make no other call on comm, except to destroy or abort it. */
BPS_API bpsResult_t bpsCommFinalize(bpsComm_t comm);

/* Finalizes comm if that has not been done, and then frees everything. comm is invalid
 * afterwards, even if the function fails. */
BPS_API bpsResult_t bpsCommDestroy(bpsComm_t comm);

/* Ends all calls in flight without waiting for the other ranks, and frees everything. The other
 * ranks get bpsRemoteError. After the function has returned, no call touches its buffers any
 * more. Any thread may call this function.
 *
 * If another thread is inside a call on comm, the abort waits until that call returns, but at
 * most half a second. The call may take longer if another communicator blocks a CUDA stream and
 * CUDA has no room for the call in it. In that case the abort returns before the call does. The
 * call fails later, when CUDA has room. */
BPS_API bpsResult_t bpsCommAbort(bpsComm_t comm);

/* As bpsCommAbort, but frees nothing. Use bpsCommRevoke in a thread that cannot know whether
 * another thread is about to call with comm. All calls in flight and all later calls fail. The
 * program must still abort or destroy comm. The function does not wait until the calls have
 * ended. Any thread may call bpsCommRevoke. revokeFlags must be 0; any other value fails with
 * bpsInvalidArgument. */
BPS_API bpsResult_t bpsCommRevoke(bpsComm_t comm, int revokeFlags);

/* Writes the state of comm to *asyncError. The state is bpsInProgress while a non-blocking init
 * or finalize runs. Otherwise the state is the first failure, or bpsSuccess if there is none.
 * The function does not wait for other ranks. Any thread may call this function. */
BPS_API bpsResult_t bpsCommGetAsyncError(bpsComm_t comm, bpsResult_t* asyncError);

/* These functions write the number of ranks, the CUDA device (0 if there is none), and the
 * caller's rank. They fail with bpsInvalidArgument if an argument is NULL or a non-blocking
 * communicator is not ready. */
BPS_API bpsResult_t bpsCommCount(bpsComm_t comm, int* count);
BPS_API bpsResult_t bpsCommCuDevice(bpsComm_t comm, int* device);
BPS_API bpsResult_t bpsCommUserRank(bpsComm_t comm, int* rank);

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

/* Announces a buffer that many calls will use. Pass *handle to bpsCommDeregister. The buffer
 * still belongs to the caller and must outlive the registration. Registration is only a hint:
 * calls work and give the same result without it. */
BPS_API bpsResult_t bpsCommRegister(bpsComm_t comm, void* buffer, size_t bytes, void** handle);
BPS_API bpsResult_t bpsCommDeregister(bpsComm_t comm, void* handle);

/* Allocates page-aligned host memory, without CUDA. Free it with bpsMemFree. If bytes is 0,
 * *pointer becomes NULL. Any thread may call these functions. */
BPS_API bpsResult_t bpsMemAlloc(void** pointer, size_t bytes);
BPS_API bpsResult_t bpsMemFree(void* pointer);

/* ---- Collectives ------------------------------------------------------------------------------------------------- */

/* Computes recvbuff[i] = op over all ranks of sendbuff[i], for `count` elements. The result is
 * bit for bit the same on every rank, from run to run, and for every number of servers. sendbuff
 * and recvbuff may be equal (in place); otherwise they must not overlap. Buffers in host memory may
 * have any alignment; those in device memory are aligned to their elements. A call with count 0
 * moves nothing but keeps its place in the order of calls.
 *
 * The function queues the call on `stream`, behind the work already there, and returns without
 * waiting. The program must not touch the buffers until the stream has passed the call. A thread
 * that waits for a host stream may itself do the work of the stream's calls.
 *
 * A CUDA stream may belong to any context. A call on a CUDA stream takes buffers of every kind:
 * memory of any CUDA device, managed, pinned and pageable memory. If NCCL combines the buffers of a
 * machine's GPUs (BPS_NCCL_LOCAL), device memory and the stream belong to the communicator's device,
 * as for NCCL. The stream waits on the device, without blocking the host. As in NCCL, after a failure
 * the stream stands until the communicator is aborted or destroyed: poll bpsCommGetAsyncError while
 * you wait for the stream. After the abort, the receive buffers of unfinished calls have undefined
 * contents.
 *
 * Fails with bpsInvalidArgument if a pointer, type or op is invalid. Fails with bpsInvalidUsage if
 * the buffers overlap in part, or if the stream is being captured into a graph. Also fails with
 * bpsInvalidUsage if a buffer is device memory and the stream is a host stream. Fails with
 * bpsUnhandledCudaError if CUDA failed; the error text says where.
 *
 * bpsCommGetAsyncError later reports bpsInvalidUsage if the ranks disagree. bpsCommGetAsyncError
 * reports bpsRemoteError if a rank died; the error text names it. If a server died, the calls go on
 * without it. */
BPS_API bpsResult_t bpsAllReduce(const void* sendbuff, void* recvbuff, size_t count, bpsDataType_t datatype,
                                 bpsRedOp_t op, bpsComm_t comm, cudaStream_t stream);

/* bpsGroupEnd issues the calls made since bpsGroupStart together, and returns the first error.
 * First, all new communicators start and all splits run, at the same time. Then the calls on
 * communicators are issued, in order. If a communicator cannot start, the calls on it fail and
 * its handle becomes NULL.
 *
 * If no rank of a communicator has a CUDA device, its small calls in a group fuse: up to 64
 * calls of at most 16 KiB travel as one call, if they have the same type and a built-in
 * operation. Fusion changes no result, but fused calls complete together. All ranks must make
 * the same calls in the same group. If a rank makes a fused call alone or in another group, all
 * ranks get bpsInvalidUsage. A call that reads the result of an earlier call of the group does
 * not fuse with it. If a call does so on one rank, it must do so on all ranks.
 *
 * Groups nest, and only the outermost bpsGroupEnd issues the calls. Each thread has its own
 * group. If the open group of a thread holds calls on a communicator, bpsCommAbort and
 * bpsCommDestroy drop these calls. */
BPS_API bpsResult_t bpsGroupStart(void);
BPS_API bpsResult_t bpsGroupEnd(void);

/* Makes an operation that multiplies this rank's contribution by *scalar before the summation.
 * The scalar has the type `datatype`. Each rank may pass a different scalar. With
 * bpsScalarHostImmediate the function reads the scalar at once. With bpsScalarDevice each call
 * reads the scalar when it starts, so the scalar's memory must stay valid until then. That
 * memory may be host memory or, for calls on CUDA streams, device memory.
 *
 * Products of integers wrap around. Products of narrow floating types are computed in float.
 * They stay unrounded until the result of the rank's first stage is rounded (see bpsRedOp_t).
 * The operation is valid only with this communicator and type. */
BPS_API bpsResult_t bpsRedOpCreatePreMulSum(bpsRedOp_t* op, void* scalar, bpsDataType_t datatype,
                                            bpsScalarResidence_t residence, bpsComm_t comm);
/* Frees op. Calls already issued with op are not affected. */
BPS_API bpsResult_t bpsRedOpDestroy(bpsRedOp_t op, bpsComm_t comm);

/* ---- Host streams ------------------------------------------------------------------------------------------------ */

/* Creates a host stream. The caller frees it with bpsHostStreamDestroy, which waits for the
 * calls in the stream. Any thread may call these functions. */
BPS_API bpsResult_t bpsHostStreamCreate(bpsHostStream_t* stream);
BPS_API bpsResult_t bpsHostStreamDestroy(bpsHostStream_t stream);
/* Returns bpsSuccess if every call in the stream is complete, and bpsInProgress otherwise. Never
 * blocks. */
BPS_API bpsResult_t bpsHostStreamQuery(bpsHostStream_t stream);
/* Waits until every call in the stream is complete. Returns the first error of the calls that
 * this thread has made since it last synchronized the stream. If this thread's calls had no
 * error, returns the first error of another thread's call that no thread has seen yet. If a peer
 * dies, the wait ends within BPS_TIMEOUT. NULL names the default stream, which all threads
 * share. */
BPS_API bpsResult_t bpsHostStreamSynchronize(bpsHostStream_t stream);

#ifdef __cplusplus
}
#endif

#endif /* BPS_BPS_H_ */
