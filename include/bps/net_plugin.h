/*
 * Optional symbols of an NCCL net plugin. They are data objects that the plugin exports beside its
 * ncclNetPlugin_vN:
 *   bpsNetWait_v1     lets a caller sleep until there is something to do.
 *                     Without bpsNetWait_v1, callers poll with back-off.
 *   bpsNetMemory_v1   tells which kinds of memory each connection takes. Without
 *                     bpsNetMemory_v1, all connections of a device take the kinds that the
 *                     device's properties name.
 *   bpsNetReverse_v1  gives the unused direction of a connection.
 *                     Without bpsNetReverse_v1, a caller opens a second connection.
 *
 * This header is C99.
 */
#ifndef BPS_NET_PLUGIN_H_
#define BPS_NET_PLUGIN_H_

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  /* Writes a descriptor that stays valid until comm (a send or receive comm) is closed. The
   * descriptor belongs to the plugin and may be put into epoll. After arm() has set *ready = 0,
   * the descriptor polls readable (level-triggered) when test, isend or irecv on comm may make
   * progress. The descriptor also polls readable when comm has failed. Sometimes only test and
   * arm can find that the peer's machine has vanished without a word. A caller that has no other
   * way to notice a vanished peer wakes once per second and calls test or arm. Returns 0 or an
   * ncclResult_t. After an error the caller must poll this comm instead of sleeping. */
  int (*waitFd)(void* comm, int* fd);
  /* Call arm right before sleeping, on the thread that uses comm. *ready = 1 means that
   * something can be done now, so the thread must not sleep. *ready = 0 means that all posted
   * requests wait for the peer or the network. The descriptor then signals progress until the
   * next isend, irecv or test. After one of these, or after a signal, call arm again before the
   * next sleep. Never blocks. Returns 0 or an ncclResult_t. */
  int (*arm)(void* comm, int* ready);
} bpsNetWait_v1_t;

typedef struct {
  /* Gives the unused direction of comm's connection: a receive comm for a send comm, and a send
   * comm for a receive comm. Sets *reverse = NULL if the connection has no unused direction. Both
   * peers must call reverse(), right after connect or accept and before anything is posted. Either
   * both peers get a reverse comm or neither does. A plain TCP connection has a reverse direction.
   * Data in the reverse direction also acknowledges the data received, so small messages need no
   * separate acknowledgements.
   *
   * comm and *reverse may be used by one thread, or by one thread each. Close them separately,
   * at about the same time. The peer's receive comm sees the end when the send comm here is
   * closed. The peer's send comm sees the end only when comm and *reverse are both closed. Never
   * blocks. Returns 0 or an ncclResult_t. */
  int (*reverse)(void* comm, void** reverse);
} bpsNetReverse_v1_t;

typedef struct {
  /* Announces that the user of this context will call supported() before it registers any memory
   * except host memory with a connection. Before version 11 all users share one context, and
   * `context` is NULL. The plugin may then use connections that take only host memory, even if
   * the device's ptrSupport has more bits. An example is shared memory between the processes of
   * a machine. Call asksEach() after init, and before listen and connect. Returns 0 or an
   * ncclResult_t. */
  int (*asksEach)(void* context);
  /* Sets *ptrSupport to the kinds of memory that comm takes. The bits are NCCL's, as in the
   * device's properties. Returns 0 or an ncclResult_t. */
  int (*supported)(void* comm, int* ptrSupport);
} bpsNetMemory_v1_t;

#ifdef __cplusplus
}
#endif

#endif /* BPS_NET_PLUGIN_H_ */
