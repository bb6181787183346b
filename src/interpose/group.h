// Group: the calling thread's NCCL group, whose all-reduces are held back until its outermost end.
//
// NCCL counts the depth of groups per thread and does not report it, so this counts too. Each thread owns one.
#pragma once
#include <memory>

#include "src/interpose/call_group.h"

namespace bps::interpose {

class Group {
 public:
  static Group& ofThisThread();

  bool open() const { return depth_ > 0; }
  ncclResult_t start();
  // Also ends a group whose start the hooks have not seen.
  ncclResult_t end();
  // Ends the group and drops its calls.
  ncclResult_t simulateEnd(ncclSimInfo_t* info);

  void enqueue(std::shared_ptr<Shadow> shadow, const Call& call);
  // The application may destroy an operation right after a call with it. True: a call that is held back may still go to
  // NCCL with it, so the operation is destroyed after the group.
  bool deferOpDestroy(ncclRedOp_t op, ncclComm_t comm);

 private:
  int depth_ = 0;
  std::shared_ptr<CallGroup> queued_;  // null: no call is held back
};

}  // namespace bps::interpose
