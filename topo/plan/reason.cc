#include "topo/plan/reason.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr double kPrintsAsOne = 1.0005;  // a smaller ratio is printed as 1.000

std::vector<size_t> gpusOfRanks(const Topology& topology, const Placement& placement,
                                const std::vector<size_t>& ranks) {
  std::vector<size_t> gpus;
  gpus.reserve(ranks.size());
  for (size_t rank : ranks) gpus.push_back(topology.indexOf(placement.ranks[rank].location));
  return gpus;
}

// Explains why the GPUs that are not roots were not chosen. A GPU that would be an equally good
// root is not mentioned.
std::string describeRoots(const Topology& topology, const LocalPlan& plan) {
  std::vector<NodeId> nicNumas;
  for (const NicShare& nic : plan.placement.nics) nicNumas.push_back(topology.numaOf(nic.nic));
  std::vector<size_t> beside, across;
  const auto far = [&](size_t rank) {
    return !nicNumas.empty() &&
           std::find(nicNumas.begin(), nicNumas.end(), plan.placement.ranks[rank].numa) == nicNumas.end();
  };
  std::string text;
  for (size_t rank = 0; rank < plan.placement.ranks.size(); ++rank) {
    const NodeId location = plan.placement.ranks[rank].location;
    const bool root = std::find(plan.roots.begin(), plan.roots.end(), rank) != plan.roots.end();
    if (root && topology.besideNic(location))
      text += fmt::format("; {} is a root although it shares a link with a NIC", topology.nameOf(location));
    if (root && far(rank))
      text += fmt::format("; {} is a root although its path to the NIC crosses the CPU interconnect",
                          topology.nameOf(location));
    if (root) continue;
    if (topology.besideNic(location)) {
      beside.push_back(rank);
    } else if (far(rank)) {
      across.push_back(rank);
    }
  }
  if (!beside.empty())
    text += fmt::format("; not GPU {}: it shares a link to the CPU with a NIC",
                        formatRanges(gpusOfRanks(topology, plan.placement, beside)));
  if (!across.empty())
    text += fmt::format("; not GPU {}: its path to the NIC crosses the CPU interconnect",
                        formatRanges(gpusOfRanks(topology, plan.placement, across)));
  return text;
}

std::string describeChosen(const Topology& topology, const LocalPlan& plan) {
  switch (plan.strategy) {
    case Strategy::kCpuAssisted:
      if (topology.node(plan.placement.ranks.front().location).kind != NodeKind::kGpu)
        return "the CPU adds the buffers";
      return plan.placement.groups.size() > 1 ? "GPU-to-GPU copies stay under their switch and the CPU adds the groups"
                                              : "there is one group";
    case Strategy::kScatter:
      return "each GPU owns a part and copies only that to host memory";
    case Strategy::kRooted:
      return "reduce to GPU " + formatRanges(gpusOfRanks(topology, plan.placement, plan.roots)) +
             describeRoots(topology, plan);
    case Strategy::kFlatRing:
      break;
  }
  return "one ring over all GPUs";
}

std::string compareCandidates(const Topology& topology, const Decision& decision) {
  std::string text;
  for (const Candidate& other : decision.candidates) {
    if (&other == &decision.best()) continue;
    const double ratio = decision.best().seconds > 0 ? other.seconds / decision.best().seconds : 1;
    text += fmt::format("; {} ", nameOf(other.plan.strategy));
    if (ratio >= kPrintsAsOne || ratio <= 1 / kPrintsAsOne) {
      text += fmt::format("takes {:.3f} times as long ({})", ratio, bottleneckOf(topology, other));
    } else {
      text += "takes equally long";
    }
    if (other.copiesCrossSwitches) text += " and copies between GPUs across PCIe switches";
  }
  return text;
}

}  // namespace

std::string formatRanges(const std::vector<size_t>& numbers) {
  std::string text;
  for (size_t first = 0, end = 0; first < numbers.size(); first = end) {
    for (end = first + 1; end < numbers.size() && numbers[end] == numbers[end - 1] + 1;) ++end;
    if (!text.empty()) text += ", ";
    text +=
        end - first == 1 ? fmt::format("{}", numbers[first]) : fmt::format("{}-{}", numbers[first], numbers[end - 1]);
  }
  return text;
}

std::string bottleneckOf(const Topology& topology, const Candidate& candidate) {
  if (candidate.slowest == kNoLink) return "no link of known rate";
  const bool up = candidate.limit == Limit::kUp || candidate.limit == Limit::kPeerUp;
  const bool peer = candidate.limit == Limit::kPeerUp || candidate.limit == Limit::kPeerDown;
  const bool memory = topology.link(candidate.slowest).kind == LinkKind::kMemory;
  return topology.nameOfLink(candidate.slowest) +
         (memory ? ""
          : up   ? ", up"
                 : ", down") +
         (peer ? ", copies between ranks" : "");
}

std::string reasonOf(const Topology& topology, const LocalPlanRequest& job, const Decision& decision, bool nvlink) {
  const Candidate& chosen = decision.best();
  std::string text = fmt::format("S_n = {}, S_g = {}, {}: ", decision.switches.withNic, decision.switches.withoutNic,
                                 nvlink ? "NVLink" : "no NVLink");
  if (topology.node(chosen.plan.placement.ranks.front().location).kind != NodeKind::kGpu)
    text = "buffers in host memory: ";
  if (job.strategy) text += "requested; ";
  if (chosen.plan.placement.ranks.size() == 1) return text + "one rank, nothing to combine";
  return text + describeChosen(topology, chosen.plan) + compareCandidates(topology, decision);
}

}  // namespace bps
