// Call: the arguments of one all-reduce that the application passed to NCCL. Call is a value type;
// the buffers belong to the application. Any thread may use a Call.
#pragma once
#include <chrono>
#include <cstdint>
#include <optional>

#include "src/base/log.h"
#include "src/nccl/types.h"

namespace bps::nccl {

// An operation made by ncclRedOpCreatePreMulSum.
struct UserOp {
  ncclDataType_t type = ncclFloat32;
  ncclScalarResidence_t residence = ncclScalarHostImmediate;
  void* deviceScalar = nullptr;
  uint64_t scalar = 0;
};

// The call holds a copy of the user's operation, because the application may destroy the operation
// before its NCCL group ends.
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
  // The address of an element of `buffer`, which is the call's send or receive buffer.
  void* at(const void* buffer, size_t element) const {
    return static_cast<uint8_t*>(const_cast<void*>(buffer)) + element * elementBytes();
  }
  // The type with which NCCL moves elements. NCCL before 2.24 has no float8.
  ncclDataType_t movedType() const { return type < ncclFloat8e4m3 ? type : ncclInt8; }
  // Returns 0 if the type is unknown or the size overflows.
  size_t bytes() const { return count <= SIZE_MAX / 8 ? count * elementBytes() : 0; }
};

// How long an abort waits for a thread to return from NCCL. After this time it aborts NCCL's
// communicator.
inline constexpr std::chrono::milliseconds kAbortGrace{500};

// bpsTimeout becomes ncclRemoteError, because NCCL before 2.30 has no result for a time-out.
inline ncclResult_t toNcclResult(bpsResult_t result) {
  return result == bpsTimeout ? ncclRemoteError : static_cast<ncclResult_t>(result);
}
inline ncclResult_t logAndConvert(const Status& status) {
  if (status.ok()) return ncclSuccess;
  logWarn(Subsystem::kColl, "{}", status.message());
  return toNcclResult(static_cast<bpsResult_t>(status.code()));
}

}  // namespace bps::nccl
