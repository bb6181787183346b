// Fusion: decides which small calls of a group travel as one fused call.
//
// A message costs about as much time as 10 KB of data. So many small calls of a group are faster as
// one call. Calls of one communicator, type and operation fuse, up to FusedCalls::kMaxCalls calls.
// The fused call takes the place of its first call. The contributions of its calls are read before
// any of their sums is written.
//
// All ranks must fuse the same calls. The decision depends on the list of calls in the group, which
// is the same on all ranks, with one exception: if buffers overlap, calls stay apart whose results
// would otherwise differ from those without fusion. If buffers overlap only on some ranks, the
// ranks may therefore disagree. The owners detect this (wire/data_header.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/buffer_range.h"

namespace bps {

// A call in a group.
struct GroupCall {
  const void* comm = nullptr;  // identifies the communicator
  uint64_t number = 0;         // the number of the call among the calls of its communicator
  size_t bytes = 0;
  uint8_t type = 0, op = 0;
  bool mayFuse = false;  // false for calls on GPU memory, and for operations with a scalar
  CallBuffers buffers;
};

// Returns the calls in the order in which they must be issued. Each item is a list of indexes into
// `calls`: one call, or the calls of a fused call.
std::vector<std::vector<size_t>> fuseCalls(const std::vector<GroupCall>& calls);

}  // namespace bps
