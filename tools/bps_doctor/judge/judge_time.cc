#include <algorithm>

#include "src/base/format.h"
#include "src/plan/shares.h"
#include "tools/bps_doctor/judge/judge.h"

namespace bps::doctor {
namespace {

constexpr double kSlow = 2;  // a measured time above this multiple of the expected time is slow

// Returns the rate of a machine's NIC in bytes per second, or 0 if it is unknown.
double rateOf(const Facts& facts) {
  if (facts.bandwidth > 0) return facts.bandwidth * 1e9 / 8;
  int mbps = facts.rdmaMbps;
  if (facts.rdma.empty())
    for (const NicFacts& nic : facts.nics)
      if (nic.chosen) mbps = std::max(mbps, nic.mbps);
  return mbps * 1e6 / 8;
}

}  // namespace

ExpectedTime expectedTime(const Survey& survey) {
  const ReduceResult& reduce = survey.reduce;
  const std::vector<Machine> machines = machinesOf(survey);
  if (reduce.machines < 2 || reduce.workerShares.size() != reduce.machines || machines.size() != reduce.machines)
    return {};
  const bool known =
      std::all_of(machines.begin(), machines.end(), [](const Machine& each) { return rateOf(*each.front()) > 0; });
  if (!known && reduce.bytesPerSecond <= 0) return {};
  ExpectedTime expected{.seconds = 0, .measured = !known};
  for (size_t machine = 0; machine < machines.size(); ++machine) {
    const double rate = known ? rateOf(*machines[machine].front()) : reduce.bytesPerSecond;
    const double traffic = workerTraffic(reduce.machines, reduce.workerShares[machine]);
    expected.seconds = std::max(expected.seconds, static_cast<double>(reduce.bytes) * traffic / rate);
  }
  return expected;
}

std::vector<Finding> judgeTime(const Survey& survey) {
  const ReduceResult& reduce = survey.reduce;
  if (!reduce.ran) return {};
  if (!reduce.error.empty())
    return {{Level::kProblem, "all-reduce", "the all-reduce failed: " + reduce.error,
             "read the messages of the ranks; docs/diagnosis.md tells how to find the cause"}};
  std::vector<Finding> findings;
  const bool usable = std::all_of(survey.servers.begin(), survey.servers.end(),
                                  [](const ServerResult& each) { return each.error.empty(); });
  // A server that was not usable has a finding of its own. On a single machine servers have nothing to do.
  if (usable && reduce.machines > 1 && reduce.servers < survey.serverNames.size())
    findings.push_back(
        {Level::kProblem, "server",
         fmt::format("the all-reduce ran with {} of {} servers", reduce.servers, survey.serverNames.size()),
         "the log of rank 0 names the server and the reason", true});
  const ExpectedTime expected = expectedTime(survey);
  if (!expected.measured && expected.seconds > 0 && reduce.seconds > kSlow * expected.seconds)
    findings.push_back({Level::kWarning, "time",
                        fmt::format("the all-reduce of {} bytes took {:.2f} ms; the rates of the NICs allow {:.2f} ms",
                                    reduce.bytes, reduce.seconds * 1e3, expected.seconds * 1e3),
                        "measure the NICs with bps-topo probe, look for other traffic and busy CPUs, and set "
                        "BPS_BANDWIDTH if the kernel reports a wrong rate"});
  return findings;
}

}  // namespace bps::doctor
