/*
 * Optional extra symbols of an NCCL net plugin, data objects that it exports beside its ncclNetPlugin_vN:
 *
 *   bpsNetWait_v1     lets a caller sleep until there is something to do; without it callers poll with back-off
 *   bpsNetMemory_v1   tells what memory each connection takes; without it all of a device take what its properties say
 *   bpsNetReverse_v1  gives the unused direction of a connection; without it a caller opens a second connection
 *
 * C99.
 */
#ifndef BPS_NET_PLUGIN_H_
#define BPS_NET_PLUGIN_H_

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  /* Writes a descriptor of the plugin's that is valid until comm (a send or receive comm) is closed. After arm() said
   * "not ready" it polls readable (level-triggered) as soon as test, isend or irecv on comm may make progress, or comm
   * has failed. A peer whose machine vanished without a word may be found by test and arm alone: a caller that waits
   * and has no other way to know wakes once per second to ask. It may be put into epoll. Returns 0, or an ncclResult_t:
   * then poll this comm instead. */
  int (*waitFd)(void* comm, int* fd);
  /* To be called right before sleeping, on the thread that uses comm. *ready = 1: do not sleep, something can be done
   * now. *ready = 0: everything that was posted waits for the peer or the network, and the descriptor will tell,
   * until the next test: arm again before every sleep. Never blocks. Returns 0 or an ncclResult_t. */
  int (*arm)(void* comm, int* ready);
} bpsNetWait_v1_t;

typedef struct {
  /* The other direction of comm's connection: a receive comm for a send comm and the other way round, or *reverse =
   * NULL where the connection has none. Both ends must ask, right after connect or accept and before anything is
   * posted; both get one, or neither. A plain TCP connection has one: what comes back then also acknowledges what went
   * there, which spares small messages the acknowledgements of their own.
   *
   * The two are used by a thread each, or by one, and are closed one by one, at about the same time: the peer's receive
   * comm sees the end when the send comm here is closed, but its send comm only when both are. Never blocks. Returns 0
   * or an ncclResult_t. */
  int (*reverse)(void* comm, void** reverse);
} bpsNetReverse_v1_t;

typedef struct {
  /* The owner of this context (NULL: of the one that all share, before version 11) will ask supported() before it
   * registers anything but host memory with a connection. Connections of a device whose properties' ptrSupport has more
   * than the host's bit may then go where only host memory can: through shared memory between processes of a machine.
   * To be called after init, before listen and connect. Returns 0 or an ncclResult_t. */
  int (*asksEach)(void* context);
  /* *ptrSupport = the kinds of memory that comm takes, NCCL's bits as in the properties. Returns 0 or an
   * ncclResult_t. */
  int (*supported)(void* comm, int* ptrSupport);
} bpsNetMemory_v1_t;

#ifdef __cplusplus
}
#endif

#endif /* BPS_NET_PLUGIN_H_ */
