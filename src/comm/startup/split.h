// Split: the membership of a new communicator that some ranks of an existing one form.
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
  int device = -1;            // number of the CUDA device, if there is one; -1: the current device of the thread
  bool onOneMachine = false;  // set for a split whose ranks all share a machine
};

// Collective over all ranks of `control`. Ranks with the same color form a communicator. Returns none for a negative
// color. The returned device is -1.
Result<std::optional<Membership>> splitMembership(const Env& env, ControlPlane& control, const SplitRequest& request);

}  // namespace bps
