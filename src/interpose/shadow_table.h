// ShadowTable: the process-wide state of the interposer. The table contains the worker threads and, for every NCCL
// communicator that was used for an all-reduce, its shadow. The key of a shadow is NCCL's handle. The state is global
// because NCCL's functions have no context argument.
//
// A forked child does not use the shadows of its parent; calls on the parent's communicators go to NCCL. When the
// process exits, the exit handler waits at most 3 s for unfinished calls. Any thread may call the functions below.
#pragma once
#include <functional>
#include <memory>

#include "src/interpose/shadow.h"

namespace bps::interpose {

// Returns the shadow of the communicator and creates it if there is none. Returns null if NCCL alone serves the
// communicator, because it has only one rank or is not ready yet.
std::shared_ptr<Shadow> findOrCreateShadow(ncclComm_t comm);
// Returns null if the communicator has no shadow.
std::shared_ptr<Shadow> findShadow(ncclComm_t comm);
// Removes the shadow from the table, because NCCL may soon use the same handle for another communicator. Returns false
// if another thread has already removed the shadow.
bool removeShadow(const Shadow& shadow);

// Runs `body` on a new thread. The process does not wait for this thread; a later startWorker() joins the thread after
// `body` has returned.
Status startWorker(std::function<void()> body);

}  // namespace bps::interpose
