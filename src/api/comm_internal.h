// Functions that the public interface lacks, for callers inside bps (src/nccl, src/interpose). Any
// thread may call these functions.
#pragma once
#include <memory>
#include <string>

#include "bps/bps.h"
#include "src/base/deadline.h"
#include "src/base/process/fork_generation.h"
#include "src/base/status.h"

namespace bps {

// As bpsCommInitRankConfig with blocking = 0, but the communicator forms no local GPU groups.
// Communicators that are split off it form no groups either.
bpsResult_t commInitWithoutGpuGroups(bpsComm_t* comm, int nRanks, const bpsUniqueId& id, int rank);

// Declares that `part` carries parts of the calls of `whole`. If `part` or `whole` fails, both
// communicators fail, on all ranks. `name` names the part in messages. All ranks call this function
// before the first call on `part`.
bpsResult_t commLinkToParent(bpsComm_t part, bpsComm_t whole, const std::string& name);

// Ends `comm` on all ranks with the failure `result` and the text `why`. Does not wait.
bpsResult_t commFail(bpsComm_t comm, bpsResult_t result, const std::string& why);

// True if a call on `comm` has reached its place in its stream and has not ended.
bool commHasCallsInFlight(bpsComm_t comm);

// As bpsCommFinalize, but waits even if `comm` is non-blocking.
bpsResult_t commFinalize(bpsComm_t comm);

// See Communicator::failIfPeerLeft().
bpsResult_t commFailIfPeerLeft(bpsComm_t comm, Deadline& until);

// True if `pointer` is in memory of a CUDA device that the communicator would have to copy. Takes part in the rule that
// one thread at a time may use a communicator.
Result<bool> commHoldsDeviceMemory(bpsComm_t comm, const void* pointer);
// True if the communicator has a CUDA device.
Result<bool> commHasDevice(bpsComm_t comm);

// True if the calling thread is between bpsGroupStart and bpsGroupEnd.
bool groupIsOpen();

// Prevents `comm` from being freed while this object exists, although another thread may end
// `comm`. Use a CommReference if a caller reads `comm` under a mutex and releases the mutex before
// the call. The call may block while CUDA has no room in a stream.
class CommReference {
 public:
  explicit CommReference(bpsComm_t comm);
  // Fails if `comm` is not a communicator of this process, or if it is being freed.
  static Result<std::unique_ptr<CommReference>> acquire(bpsComm_t comm);
  ~CommReference();
  CommReference(const CommReference&) = delete;
  CommReference& operator=(const CommReference&) = delete;

 private:
  bpsComm_t comm_;
};

}  // namespace bps
