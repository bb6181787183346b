// ShadowTable: the state of the interposer that belongs to the process, because NCCL's functions carry no context: the
// shadow of each NCCL communicator that has all-reduced, keyed by NCCL's handle, and the worker threads.
//
// A forked child sees no shadow of its parent: all its calls go to NCCL. At the process's exit, calls in flight are
// completed, for at most 3 s. Threads: any.
#pragma once
#include <functional>
#include <memory>

#include "src/interpose/shadow.h"

namespace bps::interpose {

// Creates the shadow if there is none. Null: NCCL serves the communicator alone, because it has one rank or NCCL does
// not answer for it (it is not ready).
std::shared_ptr<Shadow> findOrCreateShadow(ncclComm_t comm);
// Null: there is none.
std::shared_ptr<Shadow> findShadow(ncclComm_t comm);
// Removes the shadow: NCCL may soon give its handle to another communicator. False: another thread has removed it.
bool removeShadow(const Shadow& shadow);

// Runs `body` on a thread of its own. Nothing waits for the thread; a later start joins it once it is done.
Status startWorker(std::function<void()> body);

}  // namespace bps::interpose
