// connectBcube: connects a machine with its neighbours on a BCube. Each level has a Mesh of its own, over the NIC of
// the level, in which the n machines of a switch push and answer each other: a BcubePath aggregates over the pushes'
// connections, and distributes over those of the answers.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/comm/lanes/bcube/bcube_path.h"
#include "src/control/control_plane.h"
#include "src/fabric/fabric_place.h"
#include "src/net/net.h"

namespace bps {

struct BcubeNetworkArgs {
  net::Plugin& plugin;
  ControlPlane& control;
  const FabricPlace& place;
  Deadline deadline;
  const std::function<bool()>& cancelled;  // connectBcube() polls it
};

struct BcubeNetwork {
  std::vector<size_t> machineAt;                        // the machine with each address
  std::vector<std::vector<BcubeNeighbour>> neighbours;  // by level and digit
  std::string nics;                                     // for messages
};

// Takes part in two exchanges: of the addresses, and of the handles. Blocks until all neighbours are connected. Fails
// if two machines have the same address, if their number is not that of the BCube, or if the deadline passes; the error
// names the two machines and the level.
Result<BcubeNetwork> connectBcube(const BcubeNetworkArgs& args);

}  // namespace bps
