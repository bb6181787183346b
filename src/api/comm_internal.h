// Functions for callers inside bps (src/nccl, src/interpose) that the public interface lacks. Threads: any.
#pragma once
#include <string>

#include "bps/bps.h"
#include "src/base/deadline.h"
#include "src/base/process/fork_generation.h"

namespace bps {

// bpsCommInitRankConfig of a non-blocking communicator that forms no local GPU groups, nor do those split off it.
bpsResult_t commInitWithoutGpuGroups(bpsComm_t* comm, int nRanks, const bpsUniqueId& id, int rank);

// Declares that `part` carries parts of `whole`'s calls. If one of the two fails, so does the other, on all ranks, and
// CUDA streams stand at failed calls until bpsCommAbort or bpsCommDestroy. `name` names the part in messages. All ranks
// call it, before the part's first call.
bpsResult_t commLinkToParent(bpsComm_t part, bpsComm_t whole, const std::string& name);

// Ends `comm` on all ranks with this failure. Does not wait.
bpsResult_t commFail(bpsComm_t comm, bpsResult_t result, const std::string& why);

// True: a call has reached its place in its stream, and has not ended.
bool commHasCallsInFlight(bpsComm_t comm);

// As bpsCommFinalize, but waits also if `comm` is non-blocking.
bpsResult_t commFinalize(bpsComm_t comm);

// See Communicator::failIfPeerLeft().
bpsResult_t commFailIfPeerLeft(bpsComm_t comm, Deadline& until);

// While it lives, `comm` is not freed, although another thread may end it. For callers that read `comm` under a mutex
// and release the mutex before the call, which may block while CUDA has no room in a stream.
class CommReference {
 public:
  explicit CommReference(bpsComm_t comm);
  ~CommReference();
  CommReference(const CommReference&) = delete;
  CommReference& operator=(const CommReference&) = delete;

 private:
  bpsComm_t comm_;
};

}  // namespace bps
