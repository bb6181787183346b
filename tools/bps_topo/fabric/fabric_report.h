// Makes the report of `bps-topo plan --fabric SHAPE`: the schedule of an all-reduce on a BCube (plan/bcube/bcube.h),
// its time against that of other networks and algorithms, and the number of switches.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/plan/bcube/bcube.h"

namespace bps {

struct FabricRequest {
  std::string shape;  // "bcube:3,2" or "hypercube:3"
  double linkGbps = 10;
  uint64_t bytes = 0;
};

// Times are in units of T, the time that one link needs for all bytes of the call. N is the number of machines.
struct FabricTimes {
  double bml = 0;     // 2 (N - 1) / (k N)
  double oneNic = 0;  // 2 (N - 1) / N: a ring, or a parameter server spread over the workers, on a Fat-tree
  double oneNicSameCost =
      0;  // the same, if the Fat-tree has only as many switches as the BCube, and a part of the rate
  double parameterServer = 0;  // 2 (n - 1) / n: spread over the machines of the BCube, which forward its packets
};
FabricTimes fabricTimes(const Bcube& shape);

// Numbers of switches with n ports: k N / n for the BCube, 5 N / n for a Fat-tree of three layers.
double bcubeSwitches(const Bcube& shape);
double fatTreeSwitches(const Bcube& shape);

Result<Bcube> parseShape(const std::string& text);
// Both fail if the shape is impossible; the error names --fabric.
Result<std::string> fabricText(const FabricRequest& request);
Result<nlohmann::ordered_json> fabricJson(const FabricRequest& request);

}  // namespace bps
