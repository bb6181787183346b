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
  std::vector<bool> owners;       // per endpoint: others send to it, for its weight is positive or calls go direct
  CutLimits limits;               // before tuning
  bool measureExchangePath = false, measureSingleOwnerPath = false;  // these limits follow from the network's rate
  // Most worker machines that are played on one host. More than one share its processors: a message costs more than its
  // time on the network.
  size_t machinesPerHost = 1;
  bool hasMultiRankMachine = false;  // on some machine
  size_t depth = 0;                  // chunks of one lane in flight: the window of its owner
  size_t rails = 1;                  // that there may be

  static Result<JobPlan> make(const Roster& roster);
  // Bytes of contributions and sums that one owner holds at most, on each rail a part of every chunk.
  size_t serviceBytes(size_t machines) const { return (machines + 1) * depth * limits.maxChunkBytes; }
};

}  // namespace bps
