// SplitRequest: a rank's contribution to the gather of a communicator split. splitGroup() computes the resulting
// groups. Neither has side effects.
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

// Returns the ranks that requested this color, ordered by key, ranks with equal keys by rank. If a request is
// malformed, the failure names its rank.
Result<std::vector<uint32_t>> splitGroup(const std::vector<Blob>& requests, int color, const Roster& roster);

}  // namespace bps
