// Issues all-reduces to their communicators: one all-reduce, or those of a group.
#pragma once
#include <memory>
#include <vector>

#include "src/api/comm_handle.h"

namespace bps {

// A call that waits for the end of a group.
struct DeferredCall {
  std::shared_ptr<HandleReference> reference;
  AllReduceCall call;
};

// Keeps the first failure. kInProgress is not a failure.
inline void keepFirst(Status& first, Status next) {
  const bool open = first.ok() || first.code() == Code::kInProgress;
  if (open && !next.ok()) first = std::move(next);
}

Status issue(bpsComm& handle, const AllReduceCall& call);
// Issues the calls of a group in order, except that small calls fuse (plan/fusion.h). Returns the
// first failure.
Status issueGroup(std::vector<DeferredCall>& calls);

}  // namespace bps
