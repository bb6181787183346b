// The machines of tests/data/topo and synthetic ones, for the tests of topo/.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "topo/load_topology.h"
#include "topo/plan/planner.h"

namespace bps::test {

// Tests run from the root of the repository, as `make test` does, or from any directory inside it.
inline std::string dataFile(const std::string& name) {
  std::string path = "tests/data/topo/" + name;
  for (int up = 0; up < 6 && ::access(path.c_str(), R_OK) != 0; ++up) path = "../" + path;
  return path;
}

inline Topology machine(const std::string& source) {
  auto made = loadTopology(source);
  EXPECT_TRUE(made.ok()) << made.error().message();
  return made.ok() ? std::move(made).value() : Topology();
}

inline Decision decide(const Topology& topology, const LocalPlanRequest& job = {}) {
  auto made = planLocal(topology, job);
  EXPECT_TRUE(made.ok()) << made.error().message();
  return std::move(made).value();
}

inline const Candidate& candidateFor(const Decision& decision, Strategy strategy) {
  return decision.candidates[static_cast<size_t>(strategy)];
}

// The machine's link with this name (Topology::nameOfLink()).
inline LinkId linkNamed(const Topology& topology, const std::string& name) {
  for (LinkId id = 0; id < topology.links().size(); ++id)
    if (topology.nameOfLink(id) == name) return id;
  ADD_FAILURE() << "no link " << name;
  return 0;
}

}  // namespace bps::test
