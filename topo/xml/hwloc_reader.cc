// Reads hwloc's XML (versions 1 and 2) into a TopologyBuilder. Hardware detection uses this reader
// too, because hwloc exports its result as XML.
//
// The reader uses four kinds of objects: NUMA nodes with their CPUs, packages (CPU sockets), PCI
// bridges and devices, and the OS devices that name the PCI devices. A PCI object belongs to the
// first NUMA node in the nodeset of the nearest enclosing object that has a nodeset.
#include <algorithm>
#include <charconv>
#include <map>

#include "src/base/format.h"
#include "topo/rates.h"
#include "topo/xml/topology_xml.h"

namespace bps {
namespace {

constexpr double kMaxRawGigabytes = 1e6;

std::string infoOf(const XmlElement& object, const char* name) {
  for (const XmlElement& child : object.children)
    if (child.name == "info" && child.text("name") == name) return child.text("value");
  return {};
}

int numberOf(const std::string& text) {
  int value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

// The class and the vendor in a text such as "0302 [10de:1db1] [10de:1212] a1".
struct PciType {
  unsigned classCode = 0;
  unsigned vendor = 0;
};
PciType pciTypeOf(const std::string& text) {
  PciType type;
  if (text.size() < 10) return type;
  std::from_chars(text.data(), text.data() + 4, type.classCode, 16);
  std::from_chars(text.data() + 6, text.data() + 10, type.vendor, 16);
  type.classCode <<= 8;
  return type;
}

class HwlocReader {
 public:
  Result<TopologyBuilder> read(const XmlElement& topology) {
    BPS_TRY(checkVersion(topology));
    const auto machine = std::find_if(topology.children.begin(), topology.children.end(),
                                      [](const XmlElement& child) { return child.name == "object"; });
    if (machine == topology.children.end()) return topology.invalid("holds no object");
    arch_ = infoOf(*machine, "Architecture") == "aarch64" ? "arm64" : infoOf(*machine, "Architecture");
    BPS_TRY(findNumas(*machine, Package{.vendor = {}, .family = 0, .model = 0}));
    // If all CPUs share one memory, version 1 has no NUMA node. The machine then counts as the only
    // NUMA node.
    if (numas_.empty()) BPS_TRY(addNuma(*machine, firstPackage(*machine)));
    BPS_TRY(findDevices(*machine, {numas_.begin()->second, numas_.begin()->second}));
    return std::move(builder_);
  }

 private:
  struct Package {
    std::string vendor;
    int family, model;
  };
  // The NUMA node of an object, and the bridge or NUMA node that is the parent of its devices.
  struct DeviceParent {
    NodeId numa, parent;
  };

  // A file of version 1 has no version attribute. Versions above 2 are rejected, because their meaning is unknown.
  static Status checkVersion(const XmlElement& topology) {
    const std::string version = topology.text("version", "1");
    const std::string major = version.substr(0, version.find('.'));
    if (major == "1" || major == "2") return {};
    return topology.invalid("version \"" + version + "\" of hwloc's XML is not supported, expected 1 or 2");
  }

  static Package firstPackage(const XmlElement& object) {
    Package found = packageOf(object, {.vendor = {}, .family = 0, .model = 0});
    for (size_t i = 0; i < object.children.size() && found.vendor.empty(); ++i)
      if (object.children[i].name == "object") found = firstPackage(object.children[i]);
    return found;
  }

  static Package packageOf(const XmlElement& object, const Package& enclosing) {
    const std::string vendor = infoOf(object, "CPUVendor");
    if (vendor.empty()) return enclosing;
    return {vendor, numberOf(infoOf(object, "CPUFamilyNumber")), numberOf(infoOf(object, "CPUModelNumber"))};
  }

  // In version 1, packages are inside NUMA nodes or next to them. In version 2, NUMA nodes are
  // inside packages.
  Status findNumas(const XmlElement& object, const Package& enclosing) {
    const Package package = packageOf(object, enclosing);
    if (object.text("type") == "NUMANode") {
      Package inside = package;
      for (const XmlElement& child : object.children) inside = packageOf(child, inside);
      BPS_TRY(addNuma(object, inside));
    }
    for (const XmlElement& child : object.children)
      if (child.name == "object") BPS_TRY(findNumas(child, package));
    return {};
  }

  Status addNuma(const XmlElement& object, const Package& package) {
    const int index = static_cast<int>(BPS_TRY(object.number("os_index", 0, 0, 1e6)));
    if (numas_.count(index) > 0) return object.invalid(fmt::format("NUMA node {} appears twice", index));
    Node node{.kind = NodeKind::kNuma, .parent = kRoot};
    auto cpus = CpuSet::fromMask(object.text("cpuset"));
    if (!cpus.ok()) return object.invalid(std::string("cpuset: ") + cpus.error().message());
    node.cpu.numaId = index;
    node.cpu.cpus = std::move(cpus).value();
    node.cpu.vendor = package.vendor;
    node.cpu.family = package.family;
    node.cpu.model = package.model;
    node.cpu.arch = arch_;
    numas_[index] = BPS_TRY(add(object, std::move(node)));
    return {};
  }

  Result<DeviceParent> deviceParentOf(const XmlElement& object, const DeviceParent& enclosing) const {
    const std::string* nodes = object.find("nodeset");
    if (nodes == nullptr || object.find("pci_busid") != nullptr) return enclosing;
    auto set = CpuSet::fromMask(*nodes);
    if (!set.ok()) return object.invalid(std::string("nodeset: ") + set.error().message());
    const CpuSet indices = std::move(set).value();
    for (unsigned index : indices.cpus()) {
      const auto found = numas_.find(static_cast<int>(index));
      if (found != numas_.end()) return DeviceParent{found->second, found->second};
    }
    return enclosing;
  }

  Status findDevices(const XmlElement& object, const DeviceParent& enclosing) {
    const DeviceParent place = BPS_TRY(deviceParentOf(object, enclosing));
    for (const XmlElement& child : object.children) {
      if (child.name != "object") continue;
      const std::string type = child.text("type");
      if (type == "PCIDev") {
        BPS_TRY(addDevice(child, place.parent));
      } else if (type == "Bridge" && !isHostBridge(child)) {
        const Pcie pcie = BPS_TRY(pcieOf(child));
        const NodeId bridge = BPS_TRY(add(child, {.kind = NodeKind::kSwitch, .parent = place.parent, .pcie = pcie}));
        BPS_TRY(findDevices(child, {place.numa, bridge}));
      } else {
        BPS_TRY(findDevices(child, place));
      }
    }
    return {};
  }

  // A host bridge is the root of a PCI tree and not a switch, because each device below a host
  // bridge has separate lanes.
  static bool isHostBridge(const XmlElement& bridge) { return bridge.text("bridge_type").substr(0, 2) == "0-"; }

  static Result<Pcie> pcieOf(const XmlElement& element) {
    Pcie pcie;
    pcie.busId = element.text("pci_busid");
    const double raw = BPS_TRY(element.number("pci_link_speed", 0, 0, kMaxRawGigabytes));
    if (raw > 0) pcie.measured = raw * kEffectiveRawPcieFraction * kGiga;
    return pcie;
  }

  Status addDevice(const XmlElement& element, NodeId parent) {
    const PciType type = pciTypeOf(element.text("pci_type"));
    const PciKind kind = pciKindOf(type.classCode, type.vendor);
    const Pcie pcie = BPS_TRY(pcieOf(element));
    if (kind == PciKind::kGpu)
      return std::move(add(element, {.kind = NodeKind::kGpu, .parent = parent, .pcie = pcie})).status();
    if (kind != PciKind::kNic) return {};
    const std::string name = networkDevice(element);
    if (name.empty()) return {};  // no kernel driver is bound to the NIC
    return std::move(add(element, {.kind = NodeKind::kNic, .parent = parent, .name = name, .pcie = pcie})).status();
  }

  // Returns the name of the RDMA device, or of the network interface if there is no RDMA device.
  static std::string networkDevice(const XmlElement& element) {
    std::string found;
    for (const XmlElement& child : element.children) {
      if (child.text("type") != "OSDev") continue;
      const std::string type = child.text("osdev_type");
      if (type == "3") return child.text("name");
      if (type == "2" && found.empty()) found = child.text("name");
    }
    return found;
  }

  Result<NodeId> add(const XmlElement& element, Node node) {
    auto added = builder_.add(std::move(node));
    if (!added.ok()) return element.invalid(added.error().message());
    return added;
  }

  TopologyBuilder builder_;
  std::string arch_;
  std::map<int, NodeId> numas_;  // by os_index
};

}  // namespace

Result<TopologyBuilder> readHwlocXml(const XmlElement& topology) { return HwlocReader().read(topology); }

}  // namespace bps
