// Shrink: makes a rank's membership of the communicator that remains when some ranks are excluded.
#pragma once
#include <vector>

#include "src/comm/startup/split.h"

namespace bps {

// `parent` is the communicator that shrinks, and `key` is its key. `excluded` has the excluded ranks
// in ascending order, without this rank. Uses only what this rank knows since the start of the
// parent, so the parent may have failed. Does not wait. Membership::device in the result is -1.
Membership shrunkenMembership(const ControlPlane& parent, const Key& key, const std::vector<uint32_t>& excluded);

}  // namespace bps
