// The networks that `bps-topo plan --fabric` compares: times of an all-reduce, and what the networks need. All
// functions are pure.
#pragma once
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/plan/bcube/bcube.h"

namespace bps {

// Times in units of M/B: M is the size of the call, B the rate of a link. N is the number of machines.
struct FabricTimes {
  double bml = 0;              // 2 (N - 1) / (k N)
  double oneNic = 0;           // 2 (N - 1) / N: a ring, or a parameter server spread over the workers, on a Fat-tree
  double oneNicSameCost = 0;   // the same with links of k / 5 of the rate, so that the switches cost as much
  double parameterServer = 0;  // 2 (n - 1) / n: spread over the machines of the BCube, which forward its packets
};
FabricTimes fabricTimes(const Bcube& shape);

// FabricCost: the switches, ports and NICs of a network. All its switches have n ports.
struct FabricCost {
  double switches = 0, ports = 0, nics = 0;
};
FabricCost bcubeCost(const Bcube& shape);    // k N / n switches
FabricCost fatTreeCost(const Bcube& shape);  // 5 N / n switches in three layers, for as many machines

// Parses "bcube:3,2" or "hypercube:3". The error names --fabric.
Result<Bcube> parseShape(const std::string& text);
// The shapes of the comparison: those of the same k with some other n, and the requested one.
std::vector<Bcube> comparedShapes(const Bcube& shape);

}  // namespace bps
