// Judges from the addresses that answer (neighbours.h) whether the network of this machine is a BCube, and proposes the
// settings for it. All functions are pure.
#pragma once
#include <string>
#include <vector>

#include "src/base/io/address.h"
#include "src/base/io/interfaces.h"
#include "src/base/status.h"
#include "src/plan/bcube/bcube.h"

namespace bps {

// The findings of this machine on the interface of one level.
struct LevelSurvey {
  Interface own;                    // with an IPv4 address
  std::vector<Address> neighbours;  // the other addresses of the network that answer
};

struct FabricProposal {
  Bcube shape;
  size_t address = 0;       // this machine
  bool needsFile = false;   // the addresses do not follow the rule of fabric_place.h, so a file must list them
  std::string interfaces;   // for BPS_SOCKET_IFNAME
  std::string addressLine;  // the line of this machine in an address file
};

// Fails if the interfaces cannot be the levels of a BCube, whoever answers: there is only one, or two of them are in
// the same network.
Status checkInterfaces(const std::vector<Interface>& interfaces);

// Proposes a shape and the place of this machine in it. The digit of a level is the last number of the IP address minus
// 1 if the n addresses of every level end in 1 to n, and otherwise the position of the address among the n. Fails if
// the network is not a BCube; the error says why. One machine cannot see whether the others find the same shape.
Result<FabricProposal> proposeFabric(const std::vector<LevelSurvey>& levels);

// Lists what answers on each level.
std::string surveyText(const std::vector<LevelSurvey>& levels);
std::string proposalText(const FabricProposal& proposal);

}  // namespace bps
