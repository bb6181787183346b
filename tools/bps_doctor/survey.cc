#include "tools/bps_doctor/survey.h"

namespace bps::doctor {

std::vector<Machine> machinesOf(const Survey& survey) {
  std::vector<Machine> machines;
  std::map<std::string, size_t> known;  // host ids
  for (const auto& [rank, facts] : survey.facts) {
    const auto [at, added] = known.emplace(facts.hostId, machines.size());
    if (added) machines.emplace_back();
    machines[at->second].push_back(&facts);
  }
  return machines;
}

}  // namespace bps::doctor
