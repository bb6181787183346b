#include "tools/bps_doctor/judge.h"

#include <algorithm>
#include <set>

#include "src/base/format.h"
#include "src/plan/shares.h"
#include "tools/bps_doctor/judge_network.h"

namespace bps::doctor {
namespace {

// docs/ports.md: with 8 sockets per connection, a peer needs 18 descriptors per rail.
constexpr uint64_t kDescriptorsPerPeer = 18;
constexpr uint64_t kOwnDescriptors = 64;  // of the program, its files and the control plane
constexpr uint64_t kEnoughMemlock = uint64_t{1} << 30;
constexpr double kClockSeconds = 1;
constexpr double kSlow = 2;  // a measured time above this multiple of the expected time is slow

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string sizeText(uint64_t bytes) {
  if (bytes == UINT64_MAX) return "unlimited";
  if (bytes < 1U << 20) return fmt::format("{} KiB", bytes >> 10);
  return fmt::format("{} MiB", bytes >> 20);
}

void judgeLimits(const Survey& survey, const Facts& facts, std::vector<Finding>& findings) {
  std::set<std::string> machines;
  for (const auto& [rank, each] : survey.facts) machines.insert(each.hostId);
  const uint64_t peers = machines.size() - 1 + survey.serverNames.size();
  const uint64_t control = facts.rank == 0 ? static_cast<uint64_t>(survey.ranks) : 1;
  const uint64_t needed = kOwnDescriptors + kDescriptorsPerPeer * peers + control;
  if (facts.nofile < needed) {
    findings.push_back({Level::kProblem, "nofile",
                        fmt::format("{} may open {} descriptors, and {} other machines with {} servers need {}",
                                    facts.name(), facts.nofile, machines.size() - 1, survey.serverNames.size(), needed),
                        fmt::format("ulimit -n {} before the job starts (hard limit here: {}); in containers --ulimit "
                                    "nofile={}, in systemd LimitNOFILE={}",
                                    std::max<uint64_t>(needed, 4096), facts.nofileHard, 4096, 4096)});
  }
  if (!facts.rdma.empty() && !facts.mayLock && facts.memlock < kEnoughMemlock) {
    findings.push_back({Level::kProblem, "memlock",
                        fmt::format("{} has the RDMA device {} and may lock only {} of memory, but RDMA locks the "
                                    "memory that it transfers",
                                    facts.name(), facts.rdma.front(), sizeText(facts.memlock)),
                        "ulimit -l unlimited (limits.conf: * - memlock unlimited; in containers --ulimit memlock=-1, "
                        "in systemd LimitMEMLOCK=infinity); or use TCP: BPS_IB_DISABLE=1"});
  }
}

void judgeMissing(const Survey& survey, std::vector<Finding>& findings) {
  for (const Refused& each : survey.refused)
    findings.push_back(explainError("rank 0 refused a process at " + each.address, each.why, "rank"));
  for (int rank = 0; rank < survey.ranks; ++rank) {
    if (survey.facts.contains(rank)) continue;
    findings.push_back({Level::kProblem, "rank",
                        fmt::format("rank {} did not report to rank 0 within {:g} s", rank, survey.waited),
                        survey.refused.empty()
                            ? "look at its own output: it says what it could not reach; open the port of BPS_ROOT on "
                              "the machine of rank 0, see docs/ports.md"
                            : "it is probably the process that was refused; its own output names the cause"});
  }
  for (const auto& [rank, why] : survey.lost)
    findings.push_back({Level::kProblem, "rank", fmt::format("rank {} stopped to answer: {}", rank, why),
                        "look at its own output, and whether the machine still runs"});
}

void judgeServers(const Survey& survey, std::vector<Finding>& findings) {
  const std::string own = survey.facts.at(0).version;
  std::set<std::string> otherVersions;
  for (const ServerResult& each : survey.servers) {
    const auto facts = survey.facts.find(each.rank);
    const std::string who = facts != survey.facts.end() ? facts->second.name() : fmt::format("rank {}", each.rank);
    if (!each.error.empty()) {
      findings.push_back(explainError(fmt::format("{} cannot use server {}", who, each.name), each.error, "server"));
    } else if (each.version != own && otherVersions.insert(each.name).second) {
      findings.push_back({Level::kProblem, "version",
                          fmt::format("server {} is version {}, rank 0 is version {}", each.name, each.version, own),
                          "install the same version of bps on all workers and servers", true});
    }
  }
}

void judgeVersions(const Survey& survey, std::vector<Finding>& findings) {
  const Facts& root = survey.facts.at(0);
  for (const auto& [rank, facts] : survey.facts)
    if (facts.version != root.version)
      findings.push_back(
          {Level::kProblem, "version",
           fmt::format("{} is version {}, {} is version {}", facts.name(), facts.version, root.name(), root.version),
           "install the same version of bps on all workers and servers"});
}

}  // namespace

Finding explainError(const std::string& what, const std::string& error, const std::string& otherCheck) {
  Finding finding{Level::kProblem, otherCheck, what + ": " + error, "", otherCheck == "server"};
  if (has(error, "protocol version")) {
    finding.check = "version";
    finding.fix = "install the same version of bps on all workers and servers";
  } else if (has(error, "key differs")) {
    finding.check = "key";
    finding.fix = "copy one key file to all machines (mode 0600), and let BPS_KEY_FILE name it on each";
  } else if (has(error, "authentication is") || has(error, "no key for") || has(error, "key file")) {
    finding.check = "key";
    finding.fix = "set BPS_KEY_FILE to the same file everywhere, or BPS_AUTH=off everywhere";
  } else if (has(error, "data connections do not work")) {
    finding.check = "port";
    finding.fix = "open the data ports of the server (bps-server --data-ports), see docs/ports.md";
  } else if (otherCheck == "server") {
    finding.fix = has(error, "refused") ? "start bps-server on that machine, or correct BPS_SERVERS"
                                        : "check that the machine runs and that its port is open, see docs/ports.md";
  } else {
    finding.fix = "check that BPS_ROOT names an address of the machine of rank 0 and that its port is open, see "
                  "docs/ports.md";
  }
  return finding;
}

std::vector<Finding> judge(const Survey& survey) {
  std::vector<Finding> findings;
  judgeMissing(survey, findings);
  judgeVersions(survey, findings);
  judgeWays(survey, findings);
  judgeNics(survey, findings);
  judgeServers(survey, findings);
  for (const auto& [rank, facts] : survey.facts) {
    judgeLimits(survey, facts, findings);
    for (const std::string& text : facts.warnings)
      findings.push_back({Level::kWarning, "environment", facts.name() + ": " + text, "see docs/environment.md"});
  }
  for (const auto& [rank, seconds] : survey.clocks)
    if (seconds > kClockSeconds || seconds < -kClockSeconds)
      findings.push_back({Level::kWarning, "clock",
                          fmt::format("the clock of {} differs by {:+.1f} s from rank 0's: times in logs do not fit",
                                      survey.facts.at(rank).name(), seconds),
                          "let NTP or chrony set the clocks"});
  if (survey.ranks == 1)
    findings.push_back({Level::kWarning, "rank", "this is a single process, so no way between ranks was tested",
                        "run bps-doctor under the launcher of the job, for example bps-run -n 4 bps-doctor"});
  return findings;
}

double expectedSeconds(const Survey& survey) {
  const ReduceResult& reduce = survey.reduce;
  if (reduce.machines < 2 || reduce.workerShares.size() != reduce.machines) return 0;
  double least = 0;
  for (const auto& [rank, facts] : survey.facts) {
    int mbps = 0;
    for (const NicFacts& nic : facts.nics)
      if (nic.chosen) mbps = std::max(mbps, nic.mbps);
    const double rate = (survey.bandwidth > 0 ? survey.bandwidth * 1e3 : mbps) * 1e6 / 8;
    if (rate == 0) return 0;
    least = least == 0 ? rate : std::min(least, rate);
  }
  const double share = *std::max_element(reduce.workerShares.begin(), reduce.workerShares.end());
  return least > 0 ? static_cast<double>(reduce.bytes) * workerTraffic(reduce.machines, share) / least : 0;
}

std::vector<Finding> judgeTime(const Survey& survey) {
  const ReduceResult& reduce = survey.reduce;
  std::vector<Finding> findings;
  if (!reduce.ran) return findings;
  if (!reduce.error.empty()) {
    findings.push_back({Level::kProblem, "all-reduce", "the all-reduce failed: " + reduce.error,
                        "docs/troubleshooting.md explains the message"});
    return findings;
  }
  if (reduce.servers < survey.serverNames.size())
    findings.push_back({Level::kProblem, "server",
                        fmt::format("the all-reduce ran with {} of {} servers", reduce.servers,
                                    survey.serverNames.size()),
                        "the log of rank 0 names the server and the reason", true});
  const double expected = expectedSeconds(survey);
  if (expected > 0 && reduce.seconds > kSlow * expected)
    findings.push_back({Level::kWarning, "time",
                        fmt::format("the all-reduce of {} bytes took {:.2f} ms, and the NICs allow {:.2f} ms",
                                    reduce.bytes, reduce.seconds * 1e3, expected * 1e3),
                        "measure one NIC with bps-topo probe, and look for other traffic and for busy CPUs"});
  return findings;
}

bool preventsReduce(const std::vector<Finding>& findings) {
  static const std::set<std::string> harmless = {"memlock", "nofile", "nic"};
  return std::any_of(findings.begin(), findings.end(), [](const Finding& each) {
    return each.level == Level::kProblem && !harmless.contains(each.check) && !each.aboutServer;
  });
}

int exitStatus(const std::vector<Finding>& findings) {
  int status = 0;
  for (const Finding& each : findings) {
    if (each.level == Level::kProblem) return 1;
    if (each.level == Level::kUnchecked) status = 2;
  }
  return status;
}

}  // namespace bps::doctor
