#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <fstream>

#include "topo/detect/detect.h"
#include "topo/rates.h"
#include "topo/xml/topology_xml.h"

namespace bps {
namespace {

std::string firstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

double leadingNumber(const std::string& text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc{} ? value : 0;
}

// Returns the smaller of two values: the value of a PCI function and the value of the port above
// the function. If the kernel reports only one of the two, returns that value. If the kernel
// reports neither, returns 0.
double minOfBothEnds(const std::string& function, const char* what) {
  const double own = leadingNumber(firstLine(function + "/" + what));
  const double port = leadingNumber(firstLine(function + "/../" + what));
  return own > 0 && port > 0 ? std::min(own, port) : std::max(own, port);
}

void setLink(Pcie& pcie, const std::string& root) {
  const std::string link = root + "/bus/pci/devices/" + pcie.busId;
  char path[PATH_MAX];
  if (pcie.busId.empty() || ::realpath(link.c_str(), path) == nullptr) return;
  const double speed = minOfBothEnds(path, "max_link_speed");
  const double width = minOfBothEnds(path, "max_link_width");
  if (speed <= 0 || width <= 0 || width > 64) return;
  pcie.gigatransfers = speed;
  pcie.width = static_cast<int>(width);
  pcie.measured = 0;
}

void setNic(Node& nic, const std::string& root) {
  const std::string rdma = root + "/class/infiniband/" + nic.name + "/ports/1/";
  if (const double gbps = leadingNumber(firstLine(rdma + "rate")); gbps > 0) {
    const std::string state = firstLine(rdma + "state");  // "4: ACTIVE"
    nic.mbps = state.empty() || state.substr(0, 2) == "4:" ? gbps * 1000 : kNoLinkMbps;
    return;
  }
  const std::string net = root + "/class/net/" + nic.name + "/";
  const std::string state = firstLine(net + "operstate");
  nic.mbps = state == "down" ? kNoLinkMbps : std::max(0.0, leadingNumber(firstLine(net + "speed")));
}

}  // namespace

void addSysfs(TopologyBuilder& builder, const std::string& root) {
  utsname system{};
  ::uname(&system);
  const std::string machine = system.machine;
  for (NodeId id = 1; id < builder.nodes().size(); ++id) {
    Node& node = builder.node(id);
    if (node.kind == NodeKind::kNuma && node.cpu.arch.empty()) node.cpu.arch = machine == "aarch64" ? "arm64" : machine;
    if (node.kind != NodeKind::kNuma) setLink(node.pcie, root);
    if (node.kind == NodeKind::kNic) setNic(node, root);
  }
}

Result<TopologyBuilder> detectMachine() {
  const std::string xml = BPS_TRY(hwlocXml(kHwlocLibrary));
  TopologyBuilder builder = BPS_TRY(readMachineXml(xml));
  addSysfs(builder, "/sys");
  addNvml(builder, kNvmlLibrary);
  return builder;
}

}  // namespace bps
