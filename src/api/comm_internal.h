// What the libraries that stand on bps's own functions need beside them.
#pragma once
#include <string>

#include "bps/bps.h"
#include "src/base/deadline.h"
#include "src/base/process/fork_generation.h"

namespace bps {

// bpsCommInitRankConfig of a non-blocking communicator that forms no local GPU groups, nor do those split off it.
bpsResult_t commInitWithoutGpuGroups(bpsComm_t* comm, int nRanks, const bpsUniqueId& id, int rank);

// `part` carries parts of `whole`'s calls from now on: if one of the two fails, so does the other, on all ranks; and
// CUDA's streams stand at its failed calls until bpsCommAbort or bpsCommDestroy. `name`: of the part, for messages.
// Before its first call, by all ranks.
bpsResult_t commLinkToParent(bpsComm_t part, bpsComm_t whole, const std::string& name);

// Ends `comm` on all ranks, which hear why from this one. Does not wait. Any thread.
bpsResult_t commFail(bpsComm_t comm, bpsResult_t result, const std::string& why);

// A call has come to its place in its stream, and has not ended.
bool commHasCallsInFlight(bpsComm_t comm);

// As bpsCommFinalize, but waits for the end even where `comm` is non-blocking.
bpsResult_t commFinalize(bpsComm_t comm);

// Communicator::endIfLeftBehind().
bpsResult_t commFailIfPeerLeft(bpsComm_t comm, Deadline& until);

// While it lives, `comm` is not freed, though another thread may end it: for who calls without the mutex under which he
// took it. A call may last, as long as CUDA has no room for it in a stream that stands.
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
