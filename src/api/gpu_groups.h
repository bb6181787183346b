// Local GPU groups of a communicator: at its start the ranks negotiate whether NCCL combines their GPUs' buffers inside
// machines (src/nccl/local_gpu_group.h). Either all ranks have a group, or none. Rank 0 logs why there is none.
//
// Calls go through the group by type, operation, size, and whether the buffers are memory of a CUDA device. A rank
// knows the last only of its own buffers: so each such call is also submitted to the communicator of all ranks, which
// checks that they agree.
//
// A rank takes part if the program has used its CUDA device before, since bps makes no context for a call that may
// never come. Ranks that share a process take no part: a thread that issues the calls of several communicators may wait
// for itself in NCCL.
//
// Threads: setUpGpuGroup() runs on the thread that starts the communicator; the rest on any.
#pragma once
#include "src/api/comm_handle.h"

namespace bps {

// Collective. Sets handle.gpuGroup if all ranks have one. Fails only with what ends the communicator.
Status setUpGpuGroup(bpsComm& handle);

// True: the call is one for local GPU groups, and is issued.
Result<bool> issueToGpuGroup(const bpsComm& handle, const AllReduceCall& call);
// The failure of the communicator or of its group. A failure of the group ends the communicator on all ranks: other
// ranks may own other parts of the calls.
Status checkFailure(const bpsComm& handle);
// Waits until no call is in flight.
Status finalizeGpuGroup(const bpsComm& handle);

}  // namespace bps
