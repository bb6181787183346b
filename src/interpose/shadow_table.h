// The side table: the shadow of each NCCL communicator that has all-reduced.
//
// In a process that was forked off after a communicator's first call there is no shadow of it: all goes to NCCL.
//
// Threads: any.
#pragma once
#include <memory>

#include "src/interpose/shadow.h"

namespace bps::interpose {

// The shadow, made if there is none. Null for what is not ours to touch: one rank, or a handle that NCCL does not
// answer for now (a communicator that is not ready).
std::shared_ptr<Shadow> findOrCreateShadow(ncclComm_t comm);
// Null if there is none.
std::shared_ptr<Shadow> findShadow(ncclComm_t comm);
// Takes it out of the table: the handle may soon mean another communicator. False: another thread has.
bool removeShadow(const Shadow& shadow);

}  // namespace bps::interpose
