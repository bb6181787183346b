// JobPlan: everything about a communicator's data plane that follows from its roster alone. All ranks and servers make
// it from the same roster, so all agree. Pure.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/status.h"
#include "src/plan/cutter.h"
#include "src/plan/shares.h"
#include "src/wire/roster.h"

namespace bps {

struct JobPlan {
  Shares shares;
  std::vector<uint64_t> weights;  // per endpoint
  std::vector<bool> owners;       // per endpoint: true if others send to it
  CutLimits limits;               // before tuning
  // The limit of this path follows from the network's rate; false: the user gave it.
  bool measureExchangePath = false, measureSingleOwnerPath = false;
  size_t depth = constants::kMaxWindow;  // chunks in flight on one lane, at most
  size_t rails = 1;                      // largest possible number of them

  static Result<JobPlan> make(const Roster& roster);
  // Bytes of contributions and sums that one owner holds at most, per rail.
  size_t serviceBytes(size_t machines) const { return (machines + 1) * depth * limits.maxChunkBytes; }
};

}  // namespace bps
