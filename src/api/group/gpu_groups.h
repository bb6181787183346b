// Local GPU groups of a communicator. When a communicator starts, its ranks negotiate whether NCCL
// combines the buffers of their GPUs inside machines (src/nccl/local_gpu_group.h). Either all ranks
// have a group or no rank has a group. If there are no groups, rank 0 logs why.
//
// The type, operation and size of a call, and whether its buffers are memory of a CUDA device,
// decide whether it goes through the group. A rank knows only of its own buffers whether they are
// device memory. Each call of a group is therefore also submitted to the communicator of all ranks,
// which checks that the ranks agree.
//
// A rank can be in a group only if the program has used the rank's CUDA device before. bps does not
// create a CUDA context for calls that may never come. Ranks that share a process cannot be in a
// group: a thread that issues calls of several communicators may wait for itself inside NCCL.
//
// setUpGpuGroup() runs on the thread that starts the communicator. Any thread may call the other
// functions.
#pragma once
#include "src/api/comm_handle.h"

namespace bps {

// All ranks call setUpGpuGroup(). Sets handle.gpuGroup if all ranks have a group. Fails only if the
// communicator has failed.
Status setUpGpuGroup(bpsComm& handle);

// Issues the call if local GPU groups carry such calls. Returns whether the call was issued.
Result<bool> issueToGpuGroup(const bpsComm& handle, const AllReduceCall& call);
// Returns the failure of the communicator or of its local GPU group. A failure of the group ends
// the communicator on all ranks, because other ranks may own other parts of the calls.
Status checkFailure(const bpsComm& handle);
// Waits until no call of the local GPU group is in flight.
Status finalizeGpuGroup(const bpsComm& handle);

}  // namespace bps
