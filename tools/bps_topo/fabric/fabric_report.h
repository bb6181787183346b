// Makes the report of `bps-topo plan --fabric SHAPE`: the schedule of an all-reduce on a BCube (plan/bcube/bcube.h),
// its time against that of other networks and algorithms, and the number of switches.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "src/base/status.h"

namespace bps {

struct FabricRequest {
  std::string shape;  // "bcube:3,2" or "hypercube:3"
  double linkGbps = 10;
  uint64_t bytes = 0;
};

// All three fail if the shape is impossible; the error names --fabric.
Result<std::string> fabricText(const FabricRequest& request);
Result<nlohmann::ordered_json> fabricJson(const FabricRequest& request);
// The times of the compared shapes as a picture.
Result<std::string> fabricSvg(const FabricRequest& request);

}  // namespace bps
