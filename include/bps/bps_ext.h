/*
 * What bps offers beyond NCCL's interface. C99; the rules of bps.h hold here too.
 */
#ifndef BPS_BPS_EXT_H_
#define BPS_BPS_EXT_H_

#include <bps/bps.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Writes facts about comm as one JSON object and a terminating zero into text[0..size): "ranks", "machines",
 * "servers", "serverNames" (as in BPS_SERVERS), "transport" (plugin, version and device), "shares" {"workers": [one
 * fraction per machine], "servers": [one per server]}, "chunkBytes", "exchangeBytes", "singleOwnerBytes", "window"
 * (rounds of chunks in flight), "startBytes" (of the calls by which the start measured the network), "cudaDevice" (only
 * where CUDA is used), "kernels". The caller owns text; 64 KiB is enough for some thousand machines. Does not block.
 * bpsInvalidArgument: comm is not ready, or the text does not fit; the error names the size that is needed. */
BPS_API bpsResult_t bpsCommDescribe(bpsComm_t comm, char* text, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* BPS_BPS_EXT_H_ */
