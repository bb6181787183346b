// JobPlan: everything about a communicator's data plane that follows from its roster alone. All
// ranks and servers compute the same plan from the same roster. An endpoint is a machine or a
// server; the machines have the lowest endpoint numbers.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "src/base/status.h"
#include "src/plan/bcube/bcube.h"
#include "src/plan/cutter.h"
#include "src/plan/shares.h"
#include "src/wire/roster.h"

namespace bps {

struct JobPlan {
  Shares shares;
  std::vector<uint64_t> weights;  // per endpoint
  std::vector<bool> owners;       // per endpoint; true if machines send chunks to it from the start
  CutLimits limits;               // before tuning
  // True if the limit of the path follows from the rate of the network. False if the user has set
  // the limit.
  bool measureExchangePath = false, measureSingleOwnerPath = false;
  size_t depth = constants::kMaxWindow;  // largest number of chunks in flight on one lane
  size_t rails = 1;                      // largest possible number of rails
  std::optional<Bcube> bcube;            // if set, the machines form a BCube, and there are no owners
  BcubeLimits bcubeLimits;

  static Result<JobPlan> make(const Roster& roster);
  // Returns the largest number of bytes of contributions and sums that one owner holds on one rail.
  size_t serviceBytes(size_t machines) const { return (machines + 1) * depth * limits.maxChunkBytes; }
};

// Returns the weights per endpoint with these servers, which replace those of the roster. The weight of an absent
// server is 0.
Result<std::vector<uint64_t>> weightsWith(const Roster& roster, const std::vector<ServerEntry>& servers);

}  // namespace bps
