// SplitRequest: what a rank brings to the gather of a split, and the groups that follow. Pure.
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

// The ranks that wish this color, in the order of their keys, equal ones in rank order. Fails naming a rank whose wish
// cannot be read.
Result<std::vector<uint32_t>> splitGroup(const std::vector<Blob>& requests, int color, const Roster& roster);

}  // namespace bps
