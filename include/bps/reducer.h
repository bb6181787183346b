/*
 * bpsReducer: averages the gradients of a model over all ranks while the backward pass still computes.
 * It works as the reducer of PyTorch's DistributedDataParallel (Li et al., "PyTorch Distributed:
 * Experiences on Accelerating Data Parallel Training", VLDB 2020, sections 3.2 and 4.2), but needs no
 * framework. This header is C99, and the rules of bps.h hold for it too.
 *
 *   bpsReducerCreate(&reducer, parameters, counts, types, 1, &comm, NULL);
 *   for each iteration:
 *     bpsReducerBegin(reducer, 1, NULL);
 *     backward pass:  bpsReducerReady(reducer, i, gradients[i]) as soon as gradient i is computed
 *     bpsReducerFinish(reducer);
 *     optimizer:      every gradients[i] is now the average over all ranks
 *   bpsReducerDestroy(reducer);
 *
 * Buckets. Few large calls are faster than many small ones. So the reducer collects gradients of one
 * type in buckets, in the reverse order of the parameters, because a backward pass computes the
 * gradients of the last layers first. A bucket is ready if all its gradients are. The reducer then
 * all-reduces it in place, but never before the buckets in front of it. So all ranks make the same
 * calls in the same order, in whatever order their gradients become ready (sections 3.2.2 and 3.2.3).
 * After the first synchronized iteration the buckets are built anew, in the order in which the
 * gradients of that iteration became ready on rank 0 (section 6.2.1).
 *
 * Where gradients lie. By default each gradient lies in memory of the program. The reducer copies the
 * gradient into the bucket, and the average back. With `gradientsAreViews` the gradients lie in the
 * buckets (bpsReducerGradient), and nothing is copied. All gradients are in host memory.
 *
 * Results. A gradient has the same bits as after a bpsAllReduce of this gradient alone, on every rank
 * and for every number of servers.
 *
 * Ranks. All ranks create their reducers with the same parameters, communicators and configuration.
 * They make the same synchronized iterations, with any number of other iterations between them. If
 * the buckets of two ranks differ, all ranks get bpsInvalidUsage.
 *
 * Communicators. During a synchronized iteration, the reducer alone uses its communicators. The
 * program frees them after the reducer. But any thread may call bpsCommAbort or bpsCommRevoke on them
 * at any time.
 *
 * Failures. If a communicator of the reducer fails, the reducer ends all its communicators, so that no
 * rank waits for ever. Every later call on the reducer then fails with the same error, except
 * bpsReducerDestroy. Failures that name a wrong argument or a wrong order of calls end nothing: the
 * program may correct the call.
 *
 * Threads. Any thread may call bpsReducerReady, bpsReducerUnused, bpsReducerWait and the functions
 * that only read, at any time. Only one thread at a time may be in bpsReducerBegin, bpsReducerFinish
 * or bpsReducerDestroy. A child process made by fork() cannot use a reducer of its parent.
 */
#ifndef BPS_REDUCER_H_
#define BPS_REDUCER_H_

#include <bps/bps.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct bpsReducer* bpsReducer_t;

/* Always initialize a configuration with BPS_REDUCER_CONFIG_INITIALIZER. All ranks pass the same
 * values. */
typedef struct {
  size_t size;              /* of this struct */
  size_t bucketBytes;       /* largest size of a bucket of several gradients; 0: each gradient has its own */
  size_t firstBucketBytes;  /* as bucketBytes, for the first bucket; a small one starts early */
  int gradientsAreViews;    /* 1: the gradients lie in the buckets */
  int findUnusedParameters; /* 0: every rank uses all parameters in every synchronized iteration */
  bpsRedOp_t op;            /* bpsAvg or bpsSum */
  /* The first layers become ready last, and the next forward pass needs them first. Their gradients can
   * take a way of their own: a parameter is urgent if those before it have less than urgentBytes bytes.
   * No bucket holds urgent and other gradients. The buckets of urgent ones go to urgentComm. */
  bpsComm_t urgentComm; /* NULL: no gradient is urgent */
  size_t urgentBytes;
} bpsReducerConfig_t;

#define BPS_REDUCER_CONFIG_INITIALIZER \
  { sizeof(bpsReducerConfig_t), 25 << 20, 1 << 20, 0, 1, bpsAvg, NULL, 0 }

/* Makes a reducer for nparams parameters. Parameter i has counts[i] elements of types[i], in the order
 * in which the model uses the parameters. Bucket b of the buckets that are not urgent uses the
 * communicator comms[b mod ncomms]. All communicators have the same ranks. The reducer copies the
 * arrays; config may be NULL. The communicators still belong to the program and must outlive the
 * reducer. Free *reducer with bpsReducerDestroy. On failure *reducer is NULL.
 *
 * The function does not communicate. It allocates host memory of the size of all gradients, and starts
 * a thread for each communicator. Fails with bpsInvalidArgument if an argument is invalid; the error
 * names it. Fails with bpsSystemError if there is no memory or no thread left. */
BPS_API bpsResult_t bpsReducerCreate(bpsReducer_t* reducer, size_t nparams, const size_t* counts,
                                     const bpsDataType_t* types, size_t ncomms, const bpsComm_t* comms,
                                     const bpsReducerConfig_t* config);

/* Frees the reducer, also if reducer has failed. First waits until its calls have ended. If a
 * synchronized iteration has begun and this rank has not made all calls of it, the other ranks wait
 * for these calls. So the function then ends the communicators, and the other ranks get
 * bpsRemoteError. If reducer is NULL, does nothing. */
BPS_API bpsResult_t bpsReducerDestroy(bpsReducer_t reducer);

/* Writes where the gradient of the parameter lies to *gradient, if `gradientsAreViews`. The memory
 * belongs to the reducer, is aligned to 64 bytes and begins as zeros. The program reads and writes it
 * outside of the time from bpsReducerReady to bpsReducerFinish or bpsReducerWait. It moves in the
 * bpsReducerBegin after the first synchronized iteration. Does not block. Fails with
 * bpsInvalidArgument if there is no such parameter, and with bpsInvalidUsage if gradients are no
 * views. */
BPS_API bpsResult_t bpsReducerGradient(bpsReducer_t reducer, size_t param, void** gradient);

/* Begins an iteration. If synchronize is 0, the iteration is local: gradients only add up on this
 * rank, as with no_sync() of DDP (section 3.2.4). The program then adds to each gradient, marks it with
 * bpsReducerReady, and marks no other. The next synchronized iteration averages what has added up.
 *
 * If the gradients are views, *moved becomes 1 if they lie at other places than before, with their
 * values. The program must then ask bpsReducerGradient for all places. Otherwise *moved becomes 0.
 * `moved` may be NULL.
 *
 * Does not wait for other ranks. Fails with bpsInvalidUsage if the last iteration is not finished.
 * Fails with the error of a communicator that has failed. */
BPS_API bpsResult_t bpsReducerBegin(bpsReducer_t reducer, int synchronize, int* moved);

/* Marks the gradient of the parameter as computed. If the gradients are views, `gradient` is NULL.
 * Otherwise `gradient` points to it. In a synchronized iteration the reducer then reads `gradient`
 * before the function returns, and later writes the average to it. So the program does not touch
 * `gradient` until bpsReducerFinish or bpsReducerWait has returned.
 *
 * The function makes the calls of all buckets that may begin now, and does not wait for other ranks.
 * Fails with bpsInvalidArgument if there is no such parameter, or if `gradient` is wrong or in memory
 * of a CUDA device. Fails with bpsInvalidUsage if no iteration has begun, if the parameter is already
 * marked, or between bpsGroupStart and bpsGroupEnd. */
BPS_API bpsResult_t bpsReducerReady(bpsReducer_t reducer, size_t param, void* gradient);

/* Marks a parameter that this rank does not use in this synchronized iteration. If this rank has used
 * it in a local iteration since the last synchronized one, what has added up counts. Otherwise this
 * rank contributes zero. If another rank uses the parameter, the average is written to `gradient`,
 * with the same rules as in bpsReducerReady. If no rank does, the gradient stays as it was (section
 * 3.2.3). Returns and fails as bpsReducerReady. Also fails with bpsInvalidUsage in a local iteration,
 * where such parameters need no mark, and without `findUnusedParameters`. */
BPS_API bpsResult_t bpsReducerUnused(bpsReducer_t reducer, size_t param, void* gradient);

/* Waits until the average of the parameter's gradient is there, while other buckets may still be in
 * flight. So the next forward pass may wait layer by layer. If this rank does not use the parameter,
 * the function waits until all ranks have marked all parameters. Returns at once if no synchronized
 * iteration is open. Blocks until other threads have marked all parameters that the bucket needs. If
 * a rank dies, the wait ends with bpsRemoteError within BPS_TIMEOUT. */
BPS_API bpsResult_t bpsReducerWait(bpsReducer_t reducer, size_t param);

/* Ends the iteration. In a synchronized one, waits until all averages are there. After a failure,
 * waits until no call touches a gradient any more, and returns the failure. If a rank dies, the wait
 * ends with bpsRemoteError within BPS_TIMEOUT.
 *
 * Fails with bpsInvalidUsage if parameters are not marked in a synchronized iteration; the error names
 * them. The iteration then stays open, and the other ranks wait: mark these parameters and call
 * bpsReducerFinish again, or call bpsReducerDestroy. Also fails so if no iteration has begun. */
BPS_API bpsResult_t bpsReducerFinish(bpsReducer_t reducer);

/* Writes 1 to *used if any rank used the parameter in the last finished synchronized iteration, or in
 * the local iterations before it, and 0 otherwise. Does not block. Fails with bpsInvalidArgument if
 * there is no such parameter or used is NULL. Fails with bpsInvalidUsage before the end of the first
 * synchronized iteration. */
BPS_API bpsResult_t bpsReducerUsed(bpsReducer_t reducer, size_t param, int* used);

/* What happened to one bucket in the last synchronized iteration. Times are seconds since
 * bpsReducerBegin, and negative if this has not happened yet. */
typedef struct {
  size_t bytes;         /* size of the call */
  size_t parameters;    /* number of gradients in it */
  size_t communicator;  /* index in comms, or ncomms for urgentComm */
  double readySeconds;  /* the last gradient was marked on this rank */
  double launchSeconds; /* this rank made the call */
  double doneSeconds;   /* the averages are there */
} bpsReducerBucket_t;

/* Writes what happened to the buckets to buckets[0..*count), in their order, and their number to
 * *count. On entry, *count is the room in `buckets`. If `buckets` is NULL, only writes the number.
 * The array belongs to the caller. Does not block. Fails with bpsInvalidArgument if count is NULL or
 * the room is too small; *count is then the number that is needed. */
BPS_API bpsResult_t bpsReducerStats(bpsReducer_t reducer, bpsReducerBucket_t* buckets, size_t* count);

/* Writes the bucket of the parameter, an index into the array of bpsReducerStats, to *bucket. Does not
 * block. Fails with bpsInvalidArgument if there is no such parameter or bucket is NULL. */
BPS_API bpsResult_t bpsReducerBucketOf(bpsReducer_t reducer, size_t param, size_t* bucket);

#ifdef __cplusplus
}
#endif

#endif /* BPS_REDUCER_H_ */
