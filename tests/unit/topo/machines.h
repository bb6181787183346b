// Helpers for the tests of topo/ that load machines from tests/data/topo or from synthetic text.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "topo/load_topology.h"
#include "topo/plan/planner.h"

namespace bps::test {

// Returns the path of a file in tests/data/topo. The current directory may be the root of the repository, as in `make
// test`, or any directory inside it.
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

// Returns the link of the machine that Topology::nameOfLink() calls `name`.
inline LinkId linkNamed(const Topology& topology, const std::string& name) {
  for (LinkId id = 0; id < topology.links().size(); ++id)
    if (topology.nameOfLink(id) == name) return id;
  ADD_FAILURE() << "no link " << name;
  return 0;
}

}  // namespace bps::test
