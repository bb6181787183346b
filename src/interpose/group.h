// The group of the calling thread: all-reduces of a group are held back until its outermost end.
//
// NCCL keeps the depth of groups per thread; so do we, since what NCCL has counted cannot be asked.
#pragma once
#include <memory>

#include "src/interpose/call_group.h"

namespace bps::interpose {

class Group {
 public:
  static Group& ofThisThread();

  bool open() const { return depth_ > 0; }
  ncclResult_t start();
  // Also for a group of which we have not seen the start.
  ncclResult_t end();
  // The group ends without its calls being carried out.
  ncclResult_t simulateEnd(ncclSimInfo_t* info);

  void enqueue(std::shared_ptr<Shadow> shadow, const Call& call);
  // The application may free an operation as soon as it has called with it. True: a call that is held back may still
  // have to go to NCCL with it, so it is freed when the group has ended.
  bool deferOpDestroy(ncclRedOp_t op, ncclComm_t comm);

 private:
  int depth_ = 0;
  std::shared_ptr<CallGroup> queued_;  // null: nothing
};

}  // namespace bps::interpose
