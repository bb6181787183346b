// Writes a Topology as NCCL's topology XML, in the narrow form that NCCL's own reader accepts: no
// prolog, one space between attributes, no entities, and values of fewer than 256 characters.
#include <string>

#include "src/base/format.h"
#include "topo/rates.h"
#include "topo/xml/topology_xml.h"

namespace bps {
namespace {

constexpr const char* kHiddenNvSwitch = "fffffff:ff:ff.0";

class Writer {
 public:
  explicit Writer(const Topology& topology) : topology_(topology) {}

  std::string write() {
    text_ = "<system version=\"1\">\n";
    for (NodeId numa : topology_.all(NodeKind::kNuma)) cpu(numa);
    return text_ + "</system>\n";
  }

 private:
  void attribute(const char* key, const std::string& value) {
    text_ += fmt::format(" {}=\"", key);
    for (size_t i = 0; i < value.size() && i < 255; ++i) {
      const char c = value[i];
      text_ += c == '"' || c == '<' || c == '>' || c == '&' || static_cast<unsigned char>(c) < ' ' ? '_' : c;
    }
    text_ += '"';
  }
  void rate(const char* key, double bytesPerSecond) {
    if (bytesPerSecond > 0) attribute(key, fmt::format("{}", bytesPerSecond / kGiga));
  }
  void open(size_t depth, const char* name) { text_ += std::string(2 * depth, ' ') + "<" + name; }
  void close(size_t depth, const char* name) { text_ += std::string(2 * depth, ' ') + "</" + name + ">\n"; }

  void cpu(NodeId id) {
    const Cpu& cpu = topology_.node(id).cpu;
    open(1, "cpu");
    attribute("numaid", fmt::format("{}", cpu.numaId));
    attribute("affinity", cpu.cpus.mask());
    if (!cpu.arch.empty()) attribute("arch", cpu.arch);
    if (!cpu.vendor.empty()) attribute("vendor", cpu.vendor);
    attribute("familyid", fmt::format("{}", cpu.family));
    attribute("modelid", fmt::format("{}", cpu.model));
    rate("bps_memory_bw", cpu.memoryRate);
    rate("bps_interconnect_bw", cpu.interconnectRate);
    rate("bps_peer_bw", cpu.peerRate);
    text_ += ">\n";
    for (NodeId child : topology_.children(id)) pci(child, 2);
    close(1, "cpu");
  }

  void pci(NodeId id, size_t depth) {
    const Node& node = topology_.node(id);
    const Pcie& pcie = node.pcie;
    open(depth, "pci");
    attribute("busid", pcie.busId);
    const bool gpu = node.kind == NodeKind::kGpu, nic = node.kind == NodeKind::kNic;
    attribute("class", gpu ? "0x030200" : nic ? "0x020000" : "0x060400");
    attribute("link_speed", pcie.gigatransfers > 0 ? fmt::format("{:.1f} GT/s PCIe", pcie.gigatransfers) : "");
    attribute("link_width", fmt::format("{}", pcie.width));
    rate("bps_bw", pcie.measured);
    text_ += ">\n";
    if (gpu) gpuElement(id, depth + 1);
    if (nic) nicElement(node, depth + 1);
    for (NodeId child : topology_.children(id)) this->pci(child, depth + 1);
    close(depth, "pci");
  }

  void gpuElement(NodeId id, size_t depth) {
    const Node& node = topology_.node(id);
    open(depth, "gpu");
    attribute("dev", fmt::format("{}", node.dev));
    attribute("sm", fmt::format("{}", node.sm));
    text_ += ">\n";
    for (const MachineLink& link : topology_.links()) {
      if (link.kind != LinkKind::kNvlink || (link.near != id && link.far != id)) continue;
      const Node& other = topology_.node(link.near == id ? link.far : link.near);
      const bool toSwitch = other.kind == NodeKind::kNvSwitch;
      open(depth + 1, "nvlink");
      attribute("target", toSwitch ? kHiddenNvSwitch : other.pcie.busId);
      attribute("count", fmt::format("{}", link.count));
      attribute("tclass", toSwitch ? "0x068000" : "0x030200");
      if (link.rate != link.count * nvlinkRate(node.sm)) rate("bps_bw", link.rate);
      text_ += "/>\n";
    }
    close(depth, "gpu");
  }

  void nicElement(const Node& node, size_t depth) {
    open(depth, "nic>\n");
    open(depth + 1, "net");
    attribute("name", node.name);
    attribute("dev", fmt::format("{}", nets_++));
    attribute("speed", fmt::format("{:.0f}", node.mbps));
    text_ += "/>\n";
    close(depth, "nic");
  }

  const Topology& topology_;
  std::string text_;
  int nets_ = 0;
};

}  // namespace

std::string writeNcclXml(const Topology& topology) { return Writer(topology).write(); }

}  // namespace bps
