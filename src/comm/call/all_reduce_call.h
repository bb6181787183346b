// AllReduceCall: the arguments of one all-reduce. The caller has checked them.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>

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
  ScalarBits scalar = 0;                          // for CallOp::kPreMulSum
  const void* deviceScalar = nullptr;             // if not null, the call reads the scalar here when it starts
  std::shared_ptr<HostStream> stream = nullptr;   // null if `handle` is not a host stream
  const void* handle = nullptr;                   // the application's stream argument
  std::optional<uint64_t> number = std::nullopt;  // null if the call gets the communicator's next number

  size_t bytes() const { return count * elementBytes(type); }
  CallBuffers buffers() const { return {{send, bytes()}, {recv, bytes()}}; }
};

}  // namespace bps
