/*
 * The functions of bps that NCCL's interface lacks. This header is C99, and the rules of bps.h hold
 * for it too.
 */
#ifndef BPS_BPS_EXT_H_
#define BPS_BPS_EXT_H_

#include <bps/bps.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes facts about comm as one JSON object, ended by a zero byte, into text[0..size). The
 * object has these fields:
 *   "ranks", "machines", "servers"
 *   "serverNames"       the servers, written as in BPS_SERVERS
 *   "transport"         plugin, version and device
 *   "shares"            {"workers": [one fraction per machine], "servers": [one per server]}
 *   "chunkBytes", "exchangeBytes", "singleOwnerBytes"
 *   "window"            rounds of chunks in flight
 *   "startBytes"        bytes of the calls by which the start measured the network
 *   "cudaDevice"        present only if CUDA is used
 *   "kernels"
 * The memory at `text` belongs to the caller; 64 KiB is enough for a few thousand machines. The
 * function does not block. bpsCommDescribe fails with bpsInvalidArgument if comm is not ready,
 * or if the object does not fit into `size` bytes. The error names the size that is needed. */
BPS_API bpsResult_t bpsCommDescribe(bpsComm_t comm, char* text, size_t size);

/* An event marks a place in a host stream, as a CUDA event marks one in a CUDA stream. The event is
 * complete if the calls that had entered the stream before bpsHostEventRecord are complete. With
 * events a program waits for single calls, while later calls are in flight. An event is a plain
 * value: it may be copied, and nothing has to be freed. */
typedef struct {
  bpsHostStream_t stream;
  unsigned long long calls; /* how many calls had entered the stream */
} bpsHostEvent_t;

/* Marks the present end of a stream; NULL is the default stream. Fails with bpsInvalidArgument if
 * event is NULL or the stream does not exist. Does not block. Any thread may call the functions of
 * events at any time. */
BPS_API bpsResult_t bpsHostEventRecord(bpsHostEvent_t* event, bpsHostStream_t stream);
/* Returns bpsInProgress if the event is not complete. Otherwise returns bpsSuccess, or the first
 * error of the stream's calls before the event. Returns the error for every event behind the call
 * that failed, until bpsHostStreamSynchronize has returned it. Does not block. Fails with
 * bpsInvalidArgument if event is NULL or its stream does not exist any more. */
BPS_API bpsResult_t bpsHostEventQuery(const bpsHostEvent_t* event);
/* Waits until the event is complete. The calling thread may itself do the work of the calls.
 * Returns, and fails with, what bpsHostEventQuery then returns. If a peer dies, the wait ends within
 * BPS_TIMEOUT. */
BPS_API bpsResult_t bpsHostEventSynchronize(const bpsHostEvent_t* event);

/* Sets the priority of comm's calls among the communicators of this process, from 0 (the value of a
 * new communicator) to BPS_MAX_PRIORITY (most urgent). While a call with a higher priority moves
 * data, this rank starts no chunks of calls with lower priorities. So an urgent call overtakes large
 * calls that are already in flight. In data-parallel training, the gradients of the first layers are
 * ready last and needed first:
 *
 *   bpsCommSplit(comm, 0, rank, &urgent, NULL);     a second communicator of the same ranks
 *   bpsCommSetPriority(urgent, 1);                  on every rank
 *   bpsAllReduce(..., comm, stream);                large calls
 *   bpsAllReduce(..., urgent, urgentStream);        overtakes them
 *
 * Chunks in flight go on, so an urgent call waits for a few milliseconds of data. Results keep their
 * bits. A call that waits for another rank overtakes nothing, so each rank may make the calls of two
 * communicators in any order. If urgent calls move data all the time, the other calls go on, but
 * very slowly.
 *
 * The priority is a setting of this rank and has its full effect if all ranks set it alike. It
 * applies to the network, not to the copies inside a machine. If a call in a CUDA stream stands
 * behind other calls of the stream, it cannot overtake them. The function does not block. Any thread
 * may call it at any time, also while calls are in flight; it applies to the next chunks. It fails
 * with bpsInvalidArgument if comm is not ready or if priority is out of range.
 * Source: BytePS, which gives every tensor a priority. */
#define BPS_MAX_PRIORITY 7
BPS_API bpsResult_t bpsCommSetPriority(bpsComm_t comm, int priority);

#ifdef __cplusplus
}
#endif

#endif /* BPS_BPS_EXT_H_ */
