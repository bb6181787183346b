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

#ifdef __cplusplus
}
#endif

#endif /* BPS_BPS_EXT_H_ */
