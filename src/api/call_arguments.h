// Checks of the arguments that the C functions for calls on buffers have in common.
#pragma once
#include "cpu_reduce/reduce.h"
#include "src/api/api_guard.h"
#include "src/base/buffer_range.h"

namespace bps {

inline Status checkBuffers(const void* send, const void* recv, size_t count, DataType type) {
  if (count > SIZE_MAX / 16 / elementBytes(type)) return badArgument("count is {}, too large", count);
  if (count == 0) return {};
  if (send == nullptr || recv == nullptr) return badArgument("{} is NULL", send == nullptr ? "sendbuff" : "recvbuff");
  const BufferRange reads{send, count * elementBytes(type)}, writes{recv, count * elementBytes(type)};
  if (send != recv && reads.overlaps(writes))
    return {Code::kInvalidUsage, "sendbuff and recvbuff overlap in part: they must be the same or apart"};
  return {};
}

inline Result<DataType> checkedType(bpsDataType_t type) {
  if (static_cast<int>(type) < 0 || type >= bpsNumTypes)
    return badArgument("datatype is {}, expected 0 to {}", static_cast<int>(type), bpsNumTypes - 1);
  return static_cast<DataType>(type);
}

}  // namespace bps
