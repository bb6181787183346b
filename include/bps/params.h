/*
 * Parameters for asynchronous training (Jiang et al., "A Unified Architecture for Accelerating Distributed DNN Training
 * in Heterogeneous GPU/CPU Clusters", OSDI 2020, section 5). This header is C99, and the rules of bps.h hold for it
 * too.
 *
 * The summation servers and the ranks keep the parameters of a model. Each rank trains on its own: it computes a change
 * (a local step of its optimizer), pushes it, and pulls the latest values, which contain the changes of all ranks so
 * far. By default, no rank waits for a slower one.
 *
 *   bpsParamInit(comm, key, weights, count, bpsFloat32);            all ranks get the values of rank 0
 *   for each step:
 *     compute change[i] = new weight - weights[i]
 *     bpsParamPushPull(comm, key, change, weights, count, bpsFloat32, stream);
 *     bpsHostStreamSynchronize(stream);
 *
 * Values. A parameter is its initial value plus all changes that were pushed, in the order in which they arrived. Each
 * push is added with one rounding to the type of the parameter; floating types of 8 and 16 bits are added as float.
 * Small changes to a parameter of such a type can therefore be lost: use bpsFloat32 for weights.
 *
 * Order. The pushes of one rank to a parameter are added in their order, and a pull contains the earlier pushes of the
 * same rank. A large parameter is cut into parts of one chunk each (BPS_PARTITION_BYTES), which have several owners. A
 * push or a pull of a part is atomic, but a pull may see another rank's push in some parts and not yet in others. The
 * owner answers every push with the new value; the library keeps it in case the owner is lost.
 *
 * Staleness. BPS_STALENESS=s limits how far ranks drift apart: push p of a rank to a parameter completes when every
 * other rank has made push p - s. With 0 all ranks train in step, and get the same values. With a limit, all ranks must
 * push to the parameters in the same order. Unset: no limit, as in BytePS.
 *
 * Ranks. Every rank counts as a machine of its own here, also if several run on one machine.
 *
 * Memory. Buffers are in host memory or in memory of the rank's CUDA device, with the streams that bpsAllReduce takes
 * for them. The parameters themselves are in host memory of their owners.
 */
#ifndef BPS_PARAMS_H_
#define BPS_PARAMS_H_

#include <bps/bps.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes a parameter of `count` elements with rank 0's `data` as its value, and writes this value to `data` on all
 * ranks. `key` is any number that no other parameter of comm has. All ranks make the same parameters in the same order.
 * `data` is ready when the function is called. The function blocks until all ranks have called it; the first call on
 * comm also connects the ranks and the servers for the parameters. comm must have no calls in flight at this first
 * call.
 *
 * Fails if a rank comes more than twice BPS_TIMEOUT later than another one. After a failure of the first call, comm can
 * have no parameters.
 *
 * Fails with bpsInvalidUsage on all ranks if they disagree about key, count or type; the error names two of the ranks.
 * Fails with bpsInvalidArgument if data is NULL although count is not 0, or if the type is invalid. */
BPS_API bpsResult_t bpsParamInit(bpsComm_t comm, uint64_t key, void* data, size_t count, bpsDataType_t datatype);

/* Each of these functions queues a request on a stream, as bpsAllReduce does, and returns without waiting. The
 * program must not touch the buffers until the stream has passed the request. count and datatype are those of
 * bpsParamInit. Requests to several parameters may be in flight.
 *
 * bpsParamPush adds `change` to the parameter. bpsParamPull writes the latest value to `latest`. bpsParamPushPull does
 * both: `latest` contains this push. change and latest may be equal; otherwise they must not overlap.
 *
 * Fail with bpsInvalidArgument if the key is unknown, if count or datatype differ from those of bpsParamInit, or if a
 * pointer or the stream is invalid. Later failures are reported by the stream, as for bpsAllReduce. */
BPS_API bpsResult_t bpsParamPush(bpsComm_t comm, uint64_t key, const void* change, size_t count, bpsDataType_t datatype,
                                 cudaStream_t stream);
BPS_API bpsResult_t bpsParamPull(bpsComm_t comm, uint64_t key, void* latest, size_t count, bpsDataType_t datatype,
                                 cudaStream_t stream);
BPS_API bpsResult_t bpsParamPushPull(bpsComm_t comm, uint64_t key, const void* change, void* latest, size_t count,
                                     bpsDataType_t datatype, cudaStream_t stream);

/* Waits until all ranks of comm have called bpsParamBarrier, however long that takes; ranks that are lost do not count.
 * The parameters then contain all pushes that the ranks made before. So all ranks pull the same values between two
 * barriers without pushes. bpsCommFinalize and bpsCommDestroy contain a barrier if comm has parameters, because the
 * ranks keep parts of the parameters. The streams must have passed this rank's requests. */
BPS_API bpsResult_t bpsParamBarrier(bpsComm_t comm);

/* Writes to `pushes`, which has an element for each rank of comm, how many pushes of that rank are in the value that
 * the last completed request for `key` has received. If parts differ, this is the least number. Does not wait for other
 * ranks. Call the function when the stream has passed the request. Fails with bpsInvalidArgument if the key is unknown.
 */
BPS_API bpsResult_t bpsParamPushes(bpsComm_t comm, uint64_t key, uint64_t* pushes);

#ifdef __cplusplus
}
#endif

#endif /* BPS_PARAMS_H_ */
