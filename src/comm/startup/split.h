// Split: makes a rank's membership of a new communicator, which some ranks of an existing
// communicator form.
#pragma once
#include <optional>

#include "src/base/env.h"
#include "src/control/control_plane.h"
#include "src/wire/split_request.h"

namespace bps {

struct Membership {
  UniqueId id;
  uint32_t rank = 0;
  uint32_t nRanks = 1;
  int device = -1;            // number of the CUDA device; -1 means the current device of the thread
  bool onOneMachine = false;  // true if a split or shrink leaves ranks of one machine only
  bool parameters = false;    // JobSettings::parameters; every rank then counts as a machine of its own
  ShrinkGroup shrink{};
};

// Returns this rank's place in a group of ranks of `control`, without a unique id.
Membership membershipIn(const std::vector<uint32_t>& group, const ControlPlane& control);

// All ranks of `control` call this function. Ranks with the same color form a communicator. Returns
// none for a negative color. Membership::device in the result is -1.
Result<std::optional<Membership>> splitMembership(const Env& env, ControlPlane& control, const SplitRequest& request);

}  // namespace bps
