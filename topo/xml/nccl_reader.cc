// Reads NCCL's topology XML into a TopologyBuilder.
#include <algorithm>
#include <charconv>

#include "src/base/format.h"
#include "topo/rates.h"
#include "topo/xml/topology_xml.h"

namespace bps {
namespace {

constexpr double kMaxGigabytes = 1e6;

// Returns the number at the start of "16.0 GT/s PCIe" or "8 GT/s". Returns 0 for "Unknown speed".
double leadingNumber(const std::string& text) {
  double value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc{} && value > 0 && value < 1e4 ? value : 0;
}

Result<double> measuredRate(const XmlElement& element, const char* attribute) {
  return BPS_TRY(element.number(attribute, 0, 0, kMaxGigabytes)) * kGiga;
}

class NcclReader {
 public:
  Result<TopologyBuilder> read(const XmlElement& system) {
    BPS_TRY(checkVersion(system));
    for (const XmlElement& child : system.children)
      if (child.name == "cpu") BPS_TRY(addCpu(child));
      else if (child.name == "pci") return child.invalid("is outside of every <cpu>");
    if (builder_.nodes().size() == 1) return system.invalid("contains no <cpu>");
    return std::move(builder_);
  }

 private:
  Status checkVersion(const XmlElement& system) {
    const std::string version = system.text("version", "1");
    if (version != "1" && version != "2")
      return system.invalid("version \"" + version + "\" is not supported, expected 1 or 2 (RCCL)");
    std::string host;
    for (const XmlElement& cpu : system.children) {
      const std::string hash = cpu.text("host_hash");
      if (!hash.empty() && !host.empty() && hash != host)
        return cpu.invalid("belongs to another host; use a file that describes one host");
      if (!hash.empty()) host = hash;
    }
    return {};
  }

  Status addCpu(const XmlElement& element) {
    Node node{.kind = NodeKind::kNuma, .parent = kRoot};
    Cpu& cpu = node.cpu;
    cpu.numaId = static_cast<int>(BPS_TRY(element.number("numaid", -1, -1, 1e6)));
    auto cpus = CpuSet::fromMask(element.text("affinity"));
    if (!cpus.ok()) return element.invalid(std::string("affinity: ") + cpus.error().message());
    cpu.cpus = std::move(cpus).value();
    cpu.arch = element.text("arch");
    cpu.vendor = element.text("vendor");
    cpu.family = static_cast<int>(BPS_TRY(element.number("familyid", 0, -1, 1e6)));
    cpu.model = static_cast<int>(BPS_TRY(element.number("modelid", 0, -1, 1e6)));
    cpu.memoryRate = BPS_TRY(measuredRate(element, "bps_memory_bw"));
    cpu.interconnectRate = BPS_TRY(measuredRate(element, "bps_interconnect_bw"));
    cpu.peerRate = BPS_TRY(measuredRate(element, "bps_peer_bw"));
    return addChildren(element, BPS_TRY(add(element, std::move(node))));
  }

  Status addChildren(const XmlElement& element, NodeId parent) {
    for (const XmlElement& child : element.children) {
      if (child.name == "pci") BPS_TRY(addPci(child, parent));
      if (child.name == "nic") BPS_TRY(addNic(child, {}, parent));
    }
    return {};
  }

  static Result<Pcie> pcieOf(const XmlElement& element) {
    Pcie pcie;
    pcie.busId = element.text("busid");
    pcie.gigatransfers = leadingNumber(element.text("link_speed"));
    pcie.width = static_cast<int>(BPS_TRY(element.number("link_width", 0, 0, 255)));
    pcie.measured = BPS_TRY(measuredRate(element, "bps_bw"));
    return pcie;
  }

  // A gpu or nic element inside the pci element decides what the PCI function is. If there is no
  // such element, the PCI class decides.
  Status addPci(const XmlElement& element, NodeId parent) {
    const Pcie pcie = BPS_TRY(pcieOf(element));
    const auto has = [&](const char* name) -> const XmlElement* {
      const auto found = std::find_if(element.children.begin(), element.children.end(),
                                      [&](const XmlElement& child) { return child.name == name; });
      return found == element.children.end() ? nullptr : &*found;
    };
    if (const XmlElement* gpu = has("gpu")) return addGpu(*gpu, pcie, parent);
    if (const XmlElement* nic = has("nic")) return addNic(*nic, pcie, parent);
    switch (pciKindOf(BPS_TRY(element.hex("class")), BPS_TRY(element.hex("vendor")))) {
      case PciKind::kGpu:
        return addGpu(element, pcie, parent);
      case PciKind::kNic:
        return addNic(element, pcie, parent);
      case PciKind::kNvSwitch:
        return {};
      case PciKind::kOther:
      case PciKind::kBridge:
        break;
    }
    if (!has("pci")) return {};
    return addChildren(element, BPS_TRY(add(element, {.kind = NodeKind::kSwitch, .parent = parent, .pcie = pcie})));
  }

  Status addGpu(const XmlElement& element, const Pcie& pcie, NodeId parent) {
    Node node{.kind = NodeKind::kGpu, .parent = parent, .pcie = pcie};
    node.dev = static_cast<int>(BPS_TRY(element.number("dev", -1, -1, 1e6)));
    node.sm = static_cast<int>(BPS_TRY(element.number("sm", 0, 0, 1e6)));
    const NodeId gpu = BPS_TRY(add(element, std::move(node)));
    for (const XmlElement& child : element.children) {
      if (child.name != "nvlink" && child.name != "xgmi") continue;
      NvlinkSpec nvlink{.gpu = gpu, .target = child.text("target")};
      nvlink.count = static_cast<int>(BPS_TRY(child.number("count", 1, 0, 1e3)));
      nvlink.measured = BPS_TRY(measuredRate(child, "bps_bw"));
      // Virtual machines hide the NVSwitch behind an impossible bus id.
      const unsigned target = BPS_TRY(child.hex("tclass"));
      nvlink.toSwitch = target == 0x068000 || nvlink.target.substr(0, 7) == "fffffff";
      if (nvlink.count > 0) builder_.add(std::move(nvlink));
    }
    return {};
  }

  // Adds one NIC per net element. If a PCI function has several net elements, their NICs share the
  // function's link.
  Status addNic(const XmlElement& element, const Pcie& pcie, NodeId parent) {
    std::vector<const XmlElement*> nets;
    for (const XmlElement& child : element.children)
      if (child.name == "net") nets.push_back(&child);
    if (nets.empty() && element.name == "nic") return {};  // the nic element contains no network device
    Node node{.kind = NodeKind::kNic, .parent = parent, .name = pcie.busId, .pcie = pcie};
    if (nets.empty()) return std::move(add(element, std::move(node))).status();
    if (nets.size() > 1)
      node.parent = BPS_TRY(add(element, {.kind = NodeKind::kSwitch, .parent = parent, .pcie = pcie}));
    for (const XmlElement* net : nets) {
      node.name = net->text("name", fmt::format("net{}", net->text("dev")));
      node.mbps = BPS_TRY(net->number("speed", 0, -1, 1e8));
      node.mbps = std::max(node.mbps, 0.0);
      BPS_TRY(add(*net, node));
    }
    return {};
  }

  Result<NodeId> add(const XmlElement& element, Node node) {
    auto added = builder_.add(std::move(node));
    if (!added.ok()) return element.invalid(added.error().message());
    return added;
  }

  TopologyBuilder builder_;
};

}  // namespace

Result<TopologyBuilder> readNcclXml(const XmlElement& system) { return NcclReader().read(system); }

Result<TopologyBuilder> readMachineXml(std::string_view text) {
  const XmlElement root = BPS_TRY(parseXml(text));
  if (root.name == "system") return readNcclXml(root);
  if (root.name == "topology") return readHwlocXml(root);
  return root.invalid("unknown root element, expected <system> (NCCL's topology XML) or <topology> (hwloc's)");
}

}  // namespace bps
