// In the negotiation, the ranks of an NCCL communicator choose which of its calls bps serves. The ranks all-gather
// their capabilities over the NCCL communicator itself. Therefore only rank 0 needs an environment variable
// (BPS_SERVERS).
//
//   1. Every rank sends its capabilities to all ranks. All ranks draw the same conclusion from the capabilities.
//   2. Rank 0 sends the unique id of a new bps communicator to all ranks, and every rank joins this communicator.
//   3. Every rank tells all ranks whether it has joined. If a rank has not, all leave, and NCCL serves all calls.
//   4. If the capabilities allow local GPU groups, all ranks or none form them (src/nccl/group_formation.h).
//   5. If BPS_NCCL_MIN_BYTES is not set, NCCL and bps are timed at growing sizes. The slowest rank's times decide.
//
// The negotiation runs on the thread that makes the communicator's first call, or on a worker thread.
#pragma once
#include "src/base/status.h"
#include "src/interpose/shadow.h"

namespace bps::interpose {

// negotiateTerms() fails only if NCCL fails or if the communicator ends.
Result<NegotiatedTerms> negotiateTerms(Shadow& shadow);

}  // namespace bps::interpose
