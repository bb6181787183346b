// apiGuard() runs the body of every hook. InternalNcclCall marks calls of NCCL that the interposer makes itself. Any
// thread may use apiGuard() and InternalNcclCall.
#pragma once
#include "src/base/guard.h"
#include "src/nccl/types.h"

namespace bps::interpose {

// Returns the result of `body`. If `body` throws an exception of the standard library, returns an error code instead.
template <class Body>
ncclResult_t apiGuard(Body&& body) noexcept {
  ncclResult_t result = ncclSuccess;
  const Status status = guarded([&] { result = body(); });
  return status.ok() ? result : static_cast<ncclResult_t>(status.code());
}

// While an InternalNcclCall exists, the calling thread calls NCCL on behalf of the interposer. If NCCL itself calls a
// hook meanwhile, the hook reports no failures of bps.
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
