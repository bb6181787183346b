// AllReduceCall: one all-reduce as the application asked for it; checked by the caller.
#pragma once
#include <cstddef>
#include <memory>

#include "cpu_reduce/reduce.h"
#include "src/comm/call/host_stream.h"
#include "src/wire/data_header.h"

namespace bps {

struct AllReduceCall {
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  DataType type = DataType::kFloat32;
  CallOp op = CallOp::kSum;
  ScalarBits scalar = 0;                         // of CallOp::kPreMulSum
  const void* deviceScalar = nullptr;            // if set, read when the call starts
  std::shared_ptr<HostStream> stream = nullptr;  // null: the handle is not one of a host stream
  const void* handle = nullptr;                  // of the stream, as the application gave it
};

}  // namespace bps
