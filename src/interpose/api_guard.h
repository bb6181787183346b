// apiGuard: the entry of every hook. InternalNcclCall: marks calls of NCCL that the interposer makes itself. Threads:
// any.
#pragma once
#include "src/base/guard.h"
#include "src/nccl/types.h"

namespace bps::interpose {

// Returns what `body` returns; an exception of the standard library becomes a result.
template <class Body>
ncclResult_t apiGuard(Body&& body) noexcept {
  ncclResult_t result = ncclSuccess;
  const Status status = guarded([&] { result = body(); });
  return status.ok() ? result : static_cast<ncclResult_t>(status.code());
}

// While it lives, the thread calls NCCL for the interposer: hooks that NCCL calls then report nothing about bps.
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
