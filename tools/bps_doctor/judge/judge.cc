#include "tools/bps_doctor/judge/judge.h"

#include <algorithm>
#include <cmath>

#include "src/base/format.h"
#include "tools/bps_doctor/judge/judge_network.h"
#include "tools/bps_doctor/judge/judge_servers.h"

namespace bps::doctor {
namespace {

// docs/ports.md: with 8 sockets per connection, a peer needs 18 descriptors.
constexpr uint64_t kDescriptorsPerPeer = 18;
constexpr uint64_t kOwnDescriptors = 64;  // of the program, its files and the control plane
constexpr uint64_t kUsualDescriptors = 4096;
constexpr uint64_t kEnoughMemlock = uint64_t{1} << 30;
constexpr uint64_t kShmBytesPerRank = uint64_t{16} << 20;
constexpr double kClockSeconds = 1;
constexpr const char* kSameVersion = "install the same version of bps on all worker machines and servers";

bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

std::string mebibytes(uint64_t bytes) {
  return bytes < 1U << 20 ? fmt::format("{} KiB", bytes >> 10) : fmt::format("{} MiB", bytes >> 20);
}

void judgeDescriptors(const Survey& survey, size_t machines, const Facts& facts, std::vector<Finding>& findings) {
  const uint64_t peers = machines - 1 + survey.serverNames.size();
  const uint64_t control = facts.rank == 0 ? static_cast<uint64_t>(survey.ranks) : 1;
  const uint64_t needed = kOwnDescriptors + kDescriptorsPerPeer * peers + control;
  if (facts.nofile >= needed) return;
  const uint64_t better = std::max(needed, kUsualDescriptors);
  findings.push_back(
      {Level::kProblem, "nofile",
       fmt::format("{} may open {} descriptors; with {} other machines and {} servers it may need {}", facts.name(),
                   facts.nofile, machines - 1, survey.serverNames.size(), needed),
       fmt::format("raise 'ulimit -n' to at least {} before the job starts{}; in containers: --ulimit nofile={}; in "
                   "systemd units: LimitNOFILE={}",
                   needed,
                   facts.nofileHard < needed ? fmt::format(" (the hard limit is {}: raise it, too, in "
                                                           "/etc/security/limits.conf)",
                                                           facts.nofileHard)
                                             : "",
                   better, better)});
}

void judgeMemory(const Facts& facts, std::vector<Finding>& findings) {
  if (facts.rdma.empty() || facts.mayLock || facts.memlock >= kEnoughMemlock) return;
  findings.push_back(
      {Level::kProblem, "memlock",
       fmt::format("{} has the RDMA device {} and may lock only {} of memory, but RDMA locks all buffers", facts.name(),
                   facts.rdma.front(), mebibytes(facts.memlock)),
       "set 'ulimit -l unlimited' before the job starts (in /etc/security/limits.conf: * - memlock unlimited; in "
       "containers: --ulimit memlock=-1; in systemd units: LimitMEMLOCK=infinity), or use TCP: NCCL_IB_DISABLE=1"});
}

void judgeSharedMemory(const Machine& machine, std::vector<Finding>& findings) {
  const Facts& facts = *machine.front();
  const uint64_t needed = kShmBytesPerRank * machine.size();
  if (machine.size() < 2 || facts.shmFree >= needed) return;
  findings.push_back(
      {Level::kProblem, "shm",
       fmt::format("/dev/shm on host {} has {} free; {} ranks need about {}", facts.host, mebibytes(facts.shmFree),
                   machine.size(), mebibytes(needed)),
       "remove old files from /dev/shm, or enlarge it: mount -o remount,size=1G /dev/shm; in containers: "
       "--shm-size=1g"});
}

void judgeMissing(const Survey& survey, std::vector<Finding>& findings) {
  for (const Refused& each : survey.refused)
    findings.push_back(explainError("rank 0 refused a process at " + each.address, each.why, "rank"));
  for (int rank = 0; rank < survey.ranks; ++rank) {
    if (survey.facts.contains(rank)) continue;
    findings.push_back({Level::kProblem, "rank",
                        fmt::format("rank {} did not report to rank 0 within {:g} s", rank, survey.waited),
                        survey.refused.empty()
                            ? "check that it was started, and read its own output; open the port of BPS_ROOT on the "
                              "machine of rank 0 (docs/ports.md)"
                            : "it may be the process that was refused; its own output names the cause"});
  }
  for (const auto& [rank, why] : survey.lost)
    findings.push_back({Level::kProblem, "rank", fmt::format("rank {} stopped answering: {}", rank, why),
                        "read its own output, and check that its machine still runs"});
}

void judgeVersions(const Survey& survey, std::vector<Finding>& findings) {
  const Facts& root = survey.facts.at(0);
  for (const auto& [rank, facts] : survey.facts)
    if (facts.version != root.version)
      findings.push_back(
          {Level::kProblem, "version",
           fmt::format("{} has version {}, {} has version {}", facts.name(), facts.version, root.name(), root.version),
           kSameVersion});
}

void judgeClocks(const Survey& survey, std::vector<Finding>& findings) {
  for (const auto& [rank, seconds] : survey.clocks) {
    const auto facts = survey.facts.find(rank);
    if (facts == survey.facts.end() || (seconds <= kClockSeconds && seconds >= -kClockSeconds)) continue;
    findings.push_back({Level::kWarning, "clock",
                        fmt::format("the clock of {} is {:.1f} s {} that of rank 0, so times in logs do not agree",
                                    facts->second.name(), std::abs(seconds), seconds > 0 ? "ahead of" : "behind"),
                        "let chrony or another NTP service set the clocks"});
  }
}

}  // namespace

Finding explainError(const std::string& what, const std::string& error, const std::string& otherCheck) {
  Finding finding{Level::kProblem, otherCheck, what + ": " + error, "", otherCheck == "server"};
  if (has(error, "protocol version")) {
    finding.check = "version";
    finding.fix = kSameVersion;
  } else if (has(error, "key differs")) {
    finding.check = "key";
    finding.fix = "copy one key file to all machines (mode 0600), and let BPS_KEY_FILE name it on each of them";
  } else if (has(error, "authentication is") || has(error, "no key for") || has(error, "key file")) {
    finding.check = "key";
    finding.fix = "let BPS_KEY_FILE name a copy of the same file on all machines, or set BPS_AUTH=off on all";
  } else if (has(error, "data connections do not work")) {
    finding.check = "port";
    finding.fix = "open the data ports of the server: bps-server --data-ports FIRST-LAST (docs/ports.md)";
  } else if (otherCheck == "server") {
    finding.fix = has(error, "refused") ? "start bps-server on that machine, or correct BPS_SERVERS"
                                        : "check that its machine runs and that its port is open (docs/ports.md), or "
                                          "correct BPS_SERVERS";
  } else {
    finding.fix =
        "check that BPS_ROOT names an address of the machine of rank 0 and that its port is open "
        "(docs/ports.md)";
  }
  return finding;
}

std::vector<Finding> judge(const Survey& survey) {
  std::vector<Finding> findings;
  judgeMissing(survey, findings);
  judgeVersions(survey, findings);
  judgeNetwork(survey, findings);
  judgeServers(survey, findings);
  const std::vector<Machine> machines = machinesOf(survey);
  for (const Machine& machine : machines) judgeSharedMemory(machine, findings);
  for (const auto& [rank, facts] : survey.facts) {
    judgeDescriptors(survey, machines.size(), facts, findings);
    judgeMemory(facts, findings);
    for (const std::string& text : facts.warnings)
      findings.push_back({Level::kWarning, "environment", facts.name() + ": " + text, "see docs/environment.md"});
  }
  judgeClocks(survey, findings);
  if (survey.ranks == 1)
    findings.push_back({Level::kWarning, "rank", "this is a single process, so nothing between ranks was tested",
                        "start bps-doctor under the launcher of the job, for example bps-run -n 4 bps-doctor"});
  return findings;
}

bool preventsReduce(const std::vector<Finding>& findings) {
  return std::any_of(findings.begin(), findings.end(),
                     [](const Finding& each) { return each.level == Level::kProblem && !each.aboutServer; });
}

int exitStatus(const std::vector<Finding>& findings) {
  const bool problem =
      std::any_of(findings.begin(), findings.end(), [](const Finding& each) { return each.level == Level::kProblem; });
  return problem ? 1 : 0;
}

}  // namespace bps::doctor
