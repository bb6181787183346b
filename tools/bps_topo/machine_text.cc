#include "tools/bps_topo/machine_text.h"

#include <fmt/core.h>

#include <algorithm>

#include "topo/plan/reason.h"
#include "topo/rates.h"

namespace bps {
namespace {

std::string plural(size_t count, const char* noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string summary(const MachineReport& report) {
  const Topology& topology = report.topology;
  return fmt::format(
      "{}: {}, {}, {}; S_n = {}, S_g = {}\n", report.source, plural(topology.all(NodeKind::kNuma).size(), "CPU"),
      plural(topology.all(NodeKind::kGpu).size(), "GPU"), plural(topology.all(NodeKind::kNic).size(), "NIC"),
      report.decision.switches.withNic, report.decision.switches.withoutNic);
}

// Describes how the plan uses a node. For a device, it names the ranks there; for a NIC, the
// percentage of each buffer that the NIC carries.
std::string useOf(const MachineReport& report, NodeId id) {
  const LocalPlan& plan = report.decision.best().plan;
  std::string text;
  for (size_t rank = 0; rank < plan.placement.ranks.size(); ++rank) {
    const RankPlacement& place = plan.placement.ranks[rank];
    if (place.location != id) continue;
    text += fmt::format("  rank {} on CPUs {}", rank, place.cpus.empty() ? "any" : place.cpus.list());
    if (std::find(plan.roots.begin(), plan.roots.end(), rank) != plan.roots.end()) text += ", root";
  }
  std::vector<size_t> drivers;
  for (const NicAssignment& assignment : plan.assignments)
    if (assignment.nic == id) drivers.push_back(assignment.rank);
  if (drivers.empty()) return text;
  uint64_t all = 0, own = 0;
  for (const NicShare& nic : plan.placement.nics) {
    all += nic.weight;
    if (nic.nic == id) own = nic.weight;
  }
  return text + fmt::format("  {:.4g} % of every buffer, driven by rank {}",
                            100.0 * static_cast<double>(own) / static_cast<double>(all), formatRanges(drivers));
}

std::string nodeText(const MachineReport& report, NodeId id) {
  const Topology& topology = report.topology;
  const Node& node = topology.node(id);
  std::string text = topology.nameOf(id);
  if (node.kind == NodeKind::kNuma) {
    text += node.cpu.numaId >= 0 ? fmt::format("  NUMA node {}", node.cpu.numaId) : "";
    text += node.cpu.cpus.empty() ? "" : "  CPUs " + node.cpu.cpus.list();
    text += node.cpu.vendor.empty() ? "" : "  " + node.cpu.vendor;
    text += "  memory " + rateText(node.cpu.memoryRate);
  } else {
    text += node.pcie.busId.empty() ? "" : "  " + node.pcie.busId;
    text += "  " + rateText(node.pcie.rate());
    if (node.pcie.measured > 0) text += " as given";
    if (node.kind == NodeKind::kNic)
      text += node.mbps > 0 ? fmt::format("  {:g} Gbit/s", node.mbps / 1000) : "  line rate unknown";
    if (topology.sharedWithNic(topology.uplink(id))) text += "  shared with a NIC";
  }
  return text + useOf(report, id) + "\n";
}

void addTree(const MachineReport& report, NodeId id, const std::string& indent, std::string& text) {
  const std::vector<NodeId> children = report.topology.children(id);
  for (size_t i = 0; i < children.size(); ++i) {
    const bool last = i + 1 == children.size();
    text += indent + (last ? "└─ " : "├─ ") + nodeText(report, children[i]);
    addTree(report, children[i], indent + (last ? "   " : "│  "), text);
  }
}

std::string nvlinkText(const Topology& topology) {
  std::string text;
  for (LinkId id = 0; id < topology.links().size(); ++id) {
    const MachineLink& link = topology.link(id);
    if (link.kind != LinkKind::kNvlink) continue;
    text += fmt::format("{}  {}  {}\n", topology.nameOfLink(id), plural(static_cast<size_t>(link.count), "NVLink"),
                        rateText(link.rate));
  }
  return text;
}

std::string candidateText(const MachineReport& report) {
  const Decision& decision = report.decision;
  std::string text = fmt::format("  {:<14}{:>12}{:>9}  {}\n", "strategy", "J, seconds", "GB/s", "slowest link");
  for (size_t i = 0; i < decision.candidates.size(); ++i) {
    const Candidate& made = decision.candidates[i];
    const double speed = made.seconds > 0 ? static_cast<double>(report.job.bytes) / made.seconds / kGiga : 0;
    text += fmt::format("{} {:<14}{:>12.6f}{:>9.3f}  {}{}\n", i == decision.chosen ? '*' : ' ',
                        nameOf(made.plan.strategy), made.seconds, speed, bottleneckOf(report.topology, made),
                        made.copiesCrossSwitches ? "; crosses PCIe switches" : "");
  }
  const Candidate& assisted = decision.candidates.front();
  if (report.mixture.x > 0)
    text += fmt::format(
        "cpu_assisted is {:.1f} % above the best mixture with brute force (x = {:.4g} of the buffer, {:.6f} s), which "
        "needs more memory bandwidth\n",
        100 * (assisted.seconds / report.mixture.seconds - 1), report.mixture.x, report.mixture.seconds);
  return text;
}

std::string rankText(const MachineReport& report) {
  const Topology& topology = report.topology;
  const LocalPlan& plan = report.decision.best().plan;
  std::string text =
      fmt::format("{:>4}  {:<8} {:<6} {:<12} {:<10} {}\n", "rank", "buffer", "group", "CPUs", "staging", "drives");
  for (size_t rank = 0; rank < plan.placement.ranks.size(); ++rank) {
    const RankPlacement& place = plan.placement.ranks[rank];
    std::string drives;
    for (const NicAssignment& assignment : plan.assignments)
      if (assignment.rank == rank && assignment.nic != kNoNode)
        drives += fmt::format("{}{} (from {})", drives.empty() ? "" : ", ", topology.nameOf(assignment.nic),
                              topology.nameOf(assignment.numa));
    text += fmt::format("{:>4}  {:<8} {:<6} {:<12} {:<10} {}\n", rank, topology.nameOf(place.location),
                        plan.placement.groupOf[rank], place.cpus.empty() ? "any" : place.cpus.list(),
                        topology.nameOf(place.numa), drives.empty() ? "-" : drives);
  }
  return text;
}

std::string kindsText(const std::array<uint64_t, kCopyKinds>& bytes) {
  std::string text;
  for (size_t kind = 0; kind < kCopyKinds; ++kind)
    if (bytes[kind] > 0)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", nameOf(static_cast<CopyKind>(kind)), bytes[kind]);
  return text.empty() ? "-" : text;
}

std::string trafficText(const MachineReport& report) {
  std::string text = fmt::format("{:<30} {:>12}  {:<38} {}\n", "link", "GB/s", "bytes up", "bytes down");
  for (LinkId id = 0; id < report.topology.links().size(); ++id) {
    const LinkBytes& bytes = report.decision.best().traffic.linkBytes(id);
    if (bytes.total(true) + bytes.total(false) == 0) continue;
    const double rate = report.topology.link(id).rate;
    text += fmt::format("{:<30} {:>12}  {:<38} {}\n", report.topology.nameOfLink(id),
                        rate > 0 ? fmt::format("{:.4g}", rate / kGiga) : "unknown", kindsText(bytes.up),
                        kindsText(bytes.down));
  }
  return text;
}

}  // namespace

std::string rateText(double bytesPerSecond) {
  return bytesPerSecond > 0 ? fmt::format("{:.4g} GB/s", bytesPerSecond / kGiga) : "unknown";
}

std::string showText(const MachineReport& report) {
  std::string text = summary(report);
  addTree(report, kRoot, "", text);
  text += nvlinkText(report.topology);
  return text + fmt::format("strategy {}: {}\n", nameOf(report.decision.best().plan.strategy), report.decision.reason);
}

std::string planText(const MachineReport& report) {
  std::string reason = report.decision.reason;
  for (size_t at = 0; (at = reason.find("; ", at)) != std::string::npos;) reason.replace(at, 2, "\n  ");
  return summary(report) +
         fmt::format("strategy {} for {} bytes\n  {}\n\n", nameOf(report.decision.best().plan.strategy),
                     report.job.bytes, reason) +
         candidateText(report) + "\n" + rankText(report) + "\n" + trafficText(report);
}

}  // namespace bps
