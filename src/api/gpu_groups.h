// Teaming: at the start of a communicator its ranks settle whether NCCL combines their GPUs' buffers inside machines
// (src/nccl/local_gpu_group.h): either all do so, or none. They show each other what they are
// (src/nccl/local_gpu_groups.h), and join NCCL's and bps's communicators of their teams; what keeps one of them from
// it, rank 0 says.
//
// Which calls go that way follows from type, operation, size, and whether the buffers are memory of a CUDA device. Of
// that last a rank knows only its own: therefore each of these calls is announced to the others on the communicator of
// all, where ranks that disagree are told.
//
// A rank takes part if the program has used its CUDA device before, since bps makes no context for a call that may
// never come; and if no other rank of its machine is in its process: who issues the calls of several communicators from
// one thread may have to wait for himself in NCCL.
#pragma once
#include "src/api/comm_handle.h"

namespace bps {

// Collective. Fails with what ends the communicator; else the handle has a team, or has not.
Status setUpGpuGroup(bpsComm& handle);

// Carries out the call if it is one for teams: true.
Result<bool> issueToGpuGroup(const bpsComm& handle, const AllReduceCall& call);
// Of the communicator, or of its team: then the others, who may own other parts of the calls, are told.
Status checkFailure(const bpsComm& handle);
// Waits until nothing is under way any more.
Status finalizeGpuGroup(const bpsComm& handle);

}  // namespace bps
