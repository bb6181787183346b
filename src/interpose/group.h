// Group: the NCCL group of the calling thread. All-reduces in a group are held back until the outermost ncclGroupEnd.
//
// NCCL does not report how deeply groups are nested, so Group counts the depth itself. Each thread has one Group.
#pragma once
#include <memory>

#include "src/interpose/call_group.h"

namespace bps::interpose {

class Group {
 public:
  static Group& ofThisThread();

  bool open() const { return depth_ > 0; }
  ncclResult_t start();
  // Ends the group. end() is also correct for a group whose ncclGroupStart the hooks have not seen.
  ncclResult_t end();
  // Ends the group and drops the held-back calls.
  ncclResult_t simulateEnd(ncclSimInfo_t* info);

  void enqueue(std::shared_ptr<Shadow> shadow, const Call& call);
  // The application may destroy an operation immediately after a call that uses the operation. If a held-back call uses
  // `op`, deferOpDestroy() returns true and destroys `op` after the group.
  bool deferOpDestroy(ncclRedOp_t op, ncclComm_t comm);

 private:
  int depth_ = 0;
  std::shared_ptr<CallGroup> queued_;  // null if no call is held back
};

}  // namespace bps::interpose
