#include "tools/bps_doctor/judge/judge_servers.h"

#include <map>
#include <set>

#include "src/base/format.h"

namespace bps::doctor {
namespace {

std::string nameOf(const Survey& survey, int rank) {
  const auto facts = survey.facts.find(rank);
  return facts != survey.facts.end() ? facts->second.name() : fmt::format("rank {}", rank);
}

// The ranks that cannot use a server, by the server and the error.
using Failures = std::map<std::pair<std::string, std::string>, std::vector<int>>;

void report(const Survey& survey, const Failures& failures, std::vector<Finding>& findings) {
  for (const auto& [what, ranks] : failures) {
    const auto& [server, error] = what;
    std::string who = nameOf(survey, ranks.front());
    if (ranks.size() > 1) who += fmt::format(" and {} more", ranks.size() - 1);
    findings.push_back(explainError(fmt::format("server {} is not usable from {}", server, who), error, "server"));
  }
}

}  // namespace

void judgeServers(const Survey& survey, std::vector<Finding>& findings) {
  const std::string& own = survey.facts.at(0).version;
  std::set<std::string> otherVersions;
  Failures failures;
  for (const ServerResult& each : survey.servers) {
    if (!each.error.empty()) {
      failures[{each.name, each.error}].push_back(each.rank);
    } else if (each.version != own && otherVersions.insert(each.name).second) {
      findings.push_back({Level::kProblem, "version",
                          fmt::format("server {} has version {}, rank 0 has version {}", each.name, each.version, own),
                          "install the same version of bps on all worker machines and servers", true});
    }
  }
  report(survey, failures, findings);
}

}  // namespace bps::doctor
