// A call of the application's.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

#include "src/nccl/types.h"

namespace bps::nccl {

// An operation made by ncclRedOpCreatePreMulSum.
struct UserOp {
  ncclDataType_t type = ncclFloat32;
  ncclScalarResidence_t residence = ncclScalarHostImmediate;
  void* deviceScalar = nullptr;
  uint64_t scalar = 0;
};

// One all-reduce as the application asked for it. A user's operation is kept by value: the application may destroy it
// before its group ends.
struct Call {
  const void* send;
  void* recv;
  size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  ncclComm_t comm;
  cudaStream_t stream;
  std::optional<UserOp> userOp;

  size_t elementBytes() const {
    constexpr size_t kBytes[ncclNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    const auto index = static_cast<size_t>(type);
    return index < ncclNumTypes ? kBytes[index] : 0;
  }
  // 0: of a type that is not known, or more than there can be.
  size_t bytes() const { return count <= SIZE_MAX / 8 ? count * elementBytes() : 0; }
};

// How long an abort waits for a thread that is in NCCL to notice it, before it lets NCCL end what that thread waits
// for.
inline constexpr std::chrono::milliseconds kAbortGrace{500};

// NCCL before 2.30 has no word for a time-out.
inline ncclResult_t toNcclResult(bpsResult_t result) {
  return result == bpsTimeout ? ncclRemoteError : static_cast<ncclResult_t>(result);
}

}  // namespace bps::nccl
