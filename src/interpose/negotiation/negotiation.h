// The negotiation: how the ranks of an NCCL communicator choose what bps does for it. They all-gather their
// capabilities over the communicator itself, so only rank 0 needs a variable, BPS_SERVERS.
//
//   1. Every rank shares its capabilities. All ranks draw the same conclusion from them.
//   2. Rank 0 hands out the id of a communicator of bps, and every rank joins it.
//   3. Every rank shares whether it has joined. If one has not, all leave again, and NCCL serves all calls.
//   4. If the capabilities allow it, all ranks form local GPU groups, or none does (src/nccl/group_formation.h).
//   5. Unless the size was given, both libraries are timed at growing sizes. The slowest rank's times decide.
//
// Threads: the one that makes the communicator's first call, or the worker thread in its place.
#pragma once
#include "src/base/status.h"
#include "src/interpose/shadow.h"

namespace bps::interpose {

// Fails only if NCCL does, or if the communicator ends.
Result<NegotiatedTerms> negotiateTerms(Shadow& shadow);

}  // namespace bps::interpose
