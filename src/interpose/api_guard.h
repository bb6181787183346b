// Where calls come in from a program or from NCCL, and where ours go out.
#pragma once
#include "src/base/guard.h"
#include "src/nccl/types.h"

namespace bps::interpose {

// What `body` returns; exceptions of the standard library end here.
template <class Body>
ncclResult_t apiGuard(Body&& body) noexcept {
  ncclResult_t result = ncclSuccess;
  const Status status = guarded([&] { result = body(); });
  return status.ok() ? result : static_cast<ncclResult_t>(status.code());
}

// While it lives, this thread calls NCCL for us: if NCCL asks back through our hooks, it hears nothing of our part.
class InternalNcclCall {
 public:
  InternalNcclCall() { ++depth(); }
  ~InternalNcclCall() { --depth(); }
  InternalNcclCall(const InternalNcclCall&) = delete;
  InternalNcclCall& operator=(const InternalNcclCall&) = delete;
  static bool active() { return depth() > 0; }

 private:
  static int& depth() {
    thread_local int depth = 0;
    return depth;
  }
};

}  // namespace bps::interpose
