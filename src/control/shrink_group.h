// ShrinkGroup: how the ranks of a shrunken communicator meet. They need no rendezvous, because they know each other
// from the parent, the communicator that they shrink: the hub listens at its standby address.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/base/io/fd.h"

namespace bps {

struct ShrinkGroup {
  std::string name;                         // Join::group
  std::shared_ptr<const UniqueFd> standby;  // the socket that listens at this rank's standby address
  std::vector<std::string> rankNames;       // by rank; the names of the ranks in the parent, for error texts
};

}  // namespace bps
