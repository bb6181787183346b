/*
 * An optional extra symbol by which an NCCL net plugin lets its caller sleep until there is something to do.
 *
 * A plugin exports a data object `bpsNetWait_v1` of this type beside its ncclNetPlugin_vN. A caller that finds none
 * polls with back-off instead. C99.
 */
#ifndef BPS_NET_PLUGIN_H_
#define BPS_NET_PLUGIN_H_

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  /* Writes a descriptor of the plugin's that is valid until comm (a send or receive comm) is closed. After arm() said
   * "not ready" it polls readable (level-triggered) as soon as test, isend or irecv on comm may make progress, or comm
   * has failed. It may be put into epoll. Returns 0, or an ncclResult_t: then poll this comm instead. */
  int (*waitFd)(void* comm, int* fd);
  /* To be called right before sleeping, on the thread that uses comm. *ready = 1: do not sleep, something can be done
   * now. *ready = 0: everything that was posted waits for the peer or the network, and the descriptor will tell.
   * Never blocks. Returns 0 or an ncclResult_t. */
  int (*arm)(void* comm, int* ready);
} bpsNetWait_v1_t;

#ifdef __cplusplus
}
#endif

#endif /* BPS_NET_PLUGIN_H_ */
