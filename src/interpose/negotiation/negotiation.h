// How the ranks of an NCCL communicator settle what bps does for it: they exchange cards over the communicator itself,
// so no address, port or variable is needed beyond BPS_SERVERS in rank 0's environment.
//
//   1. Everybody shows machine, settings, and whether it can. From the same cards all draw the same conclusion.
//   2. Rank 0 hands out the id of a communicator of bps; everybody joins it.
//   3. Everybody says whether it has joined. If one has not, all leave again, and NCCL does everything.
//   4. Where NCCL may combine buffers inside machines (capabilities.h), teams are made likewise: by all ranks or by
//   none.
//   5. Unless the size was given: both are timed at growing sizes, and the slowest rank's times decide.
#pragma once
#include "src/base/status.h"
#include "src/interpose/shadow.h"

namespace bps::interpose {

// Settles. A failure is NCCL's, or the communicator's end, and not ours.
Result<NegotiatedTerms> negotiateTerms(Shadow& shadow);

}  // namespace bps::interpose
