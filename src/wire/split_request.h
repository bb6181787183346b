// SplitRequest: the bytes that a rank brings to the gather of a communicator split. splitGroup() computes a group from
// the requests of all ranks. The code in this file has no side effects.
#pragma once
#include <vector>

#include "src/base/status.h"
#include "src/wire/roster.h"

namespace bps {

struct SplitRequest {
  int color = 0;
  int key = 0;

  Blob bytes() const { return WireWriter().put(color).put(key).bytes(); }
};

// Returns the ranks that requested this color, ordered by key. Ranks with equal keys are ordered by rank. If the
// request of a rank is malformed, the failure names this rank.
Result<std::vector<uint32_t>> splitGroup(const std::vector<Blob>& requests, int color, const Roster& roster);

}  // namespace bps
