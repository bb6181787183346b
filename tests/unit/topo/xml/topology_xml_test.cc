// Tests the reader and the writer of topology files. The reader must read files of NCCL and hwloc, and its errors must
// name the line. A written file must read back as the same machine.
#include "topo/xml/topology_xml.h"

#include <gtest/gtest.h>

#include "tests/unit/topo/machines.h"
#include "topo/rates.h"

namespace bps {
namespace {

using test::dataFile;
using test::machine;

Result<Topology> parse(const std::string& text) {
  auto builder = readMachineXml(text);
  if (!builder.ok()) return std::move(builder).status();
  return std::move(builder).value().build();
}
Topology parsed(const std::string& text) {
  auto made = parse(text);
  EXPECT_TRUE(made.ok()) << made.error().message();
  return made.ok() ? std::move(made).value() : Topology();
}
std::string whyNot(const std::string& text) {
  auto made = parse(text);
  return made.ok() ? "fine" : made.error().message();
}
std::string inCpu(const std::string& inside) {
  return "<system version=\"1\">\n<cpu numaid=\"0\" affinity=\"ff\">\n" + inside + "</cpu>\n</system>\n";
}

TEST(TopologyXml, DevicesWithoutElementAreIdentifiedByPciClass) {
  const Topology topology = machine(dataFile("cloud_numa_pairs.xml"));
  EXPECT_EQ(topology.all(NodeKind::kNuma).size(), 4U);
  EXPECT_EQ(topology.all(NodeKind::kSwitch).size(), 4U);
  EXPECT_EQ(topology.all(NodeKind::kGpu).size(), 8U);
  ASSERT_EQ(topology.all(NodeKind::kNic).size(), 8U);
  const NodeId nic = topology.all(NodeKind::kNic)[0];
  EXPECT_EQ(topology.node(nic).name, "0101:00:00.0");
  EXPECT_DOUBLE_EQ(topology.node(nic).pcie.rate(), 24 * kGiga);
}

TEST(TopologyXml, AcceptsTheVariantsThatNcclWrites) {
  // The text contains single quotes, a comment, unknown elements with children, an empty speed, a NIC without a PCI
  // device, and a null byte after the end.
  std::string text = inCpu(
      "<!-- a comment --><pci busid='0000:01:00.0' class='0x060400' link_speed='' link_width=''><future><x/></future>"
      "<pci busid='0000:02:00.0' class='0x030200' link_speed='16 GT/s' link_width='8'><gpu dev='3' sm='80' "
      "rank='1'/></pci>"
      "<pci busid='0000:03:00.0' class='0x020000'><nic><net name='a' dev='0' speed='400000'/></nic></pci>"
      "<pci busid='0000:04:00.0' class='0x010802'/></pci>"
      "<nic><net name='eth9' dev='1' speed='-1'/></nic>\n");
  text.push_back('\0');
  const Topology topology = parsed(text);
  ASSERT_EQ(topology.all(NodeKind::kGpu).size(), 1U);
  const Node& gpu = topology.node(topology.all(NodeKind::kGpu)[0]);
  EXPECT_EQ(gpu.dev, 3);
  EXPECT_EQ(gpu.sm, 80);
  EXPECT_DOUBLE_EQ(gpu.pcie.rate(), 12 * kGiga);
  ASSERT_EQ(topology.all(NodeKind::kNic).size(), 2U);
  EXPECT_EQ(topology.node(topology.all(NodeKind::kNic)[0]).mbps, 400000);
  EXPECT_EQ(topology.node(topology.all(NodeKind::kNic)[1]).mbps, 0);
}

TEST(TopologyXml, BridgesWithOneDeviceMergeIntoItsLink) {
  const Topology topology = parsed(
      inCpu("<pci busid='0000:01:00.0' class='0x060400' link_speed='8.0 GT/s PCIe' link_width='4'>"
            "<pci busid='0000:02:00.0' class='0x060400' link_speed='16.0 GT/s PCIe' link_width='16'>"
            "<pci busid='0000:03:00.0' class='0x030200' link_speed='16.0 GT/s PCIe' link_width='16'/></pci></pci>"
            "<pci busid='0000:04:00.0' class='0x060400'><pci busid='0000:05:00.0' class='0x010802'/></pci>\n"));
  EXPECT_TRUE(topology.all(NodeKind::kSwitch).empty());
  const Node& gpu = topology.node(topology.all(NodeKind::kGpu).at(0));
  EXPECT_EQ(gpu.pcie.busId, "0000:03:00.0");
  EXPECT_DOUBLE_EQ(gpu.pcie.rate(), 3 * kGiga);  // the narrowest link on the path
}

TEST(TopologyXml, NvlinksAndNvSwitchesAreMerged) {
  const std::string gpus =
      "<pci busid='0000:01:00.0' class='0x030200'><gpu dev='0' sm='80'><nvlink target='0000:02:00.0' count='4' "
      "tclass='0x030200'/><nvlink target='0000:09:00.0' count='2' tclass='0x068000'/><nvlink target='0000:0a:00.0' "
      "count='2' tclass='0x068000'/></gpu></pci>"
      "<pci busid='0000:02:00.0' class='0x030200'><gpu dev='1' sm='80'><nvlink target='0000:01:00.0' count='4' "
      "tclass='0x030200'/></gpu></pci>"
      "<pci busid='0000:09:00.0' class='0x068000'/>\n";
  const Topology topology = parsed(inCpu(gpus));
  std::vector<const MachineLink*> nvlinks;
  for (const MachineLink& link : topology.links())
    if (link.kind == LinkKind::kNvlink) nvlinks.push_back(&link);
  ASSERT_EQ(nvlinks.size(), 2U);
  EXPECT_EQ(nvlinks[0]->count, 4);
  EXPECT_DOUBLE_EQ(nvlinks[0]->rate, 80 * kGiga);
  EXPECT_EQ(nvlinks[1]->count, 4);
  EXPECT_EQ(topology.all(NodeKind::kNvSwitch).size(), 1U);
}

TEST(TopologyXml, ErrorsNameTheLine) {
  EXPECT_EQ(whyNot("<system version=\"1\">\n<cpu"), "line 2: unclosed token");
  EXPECT_EQ(whyNot(""), "line 1: no element found");
  EXPECT_EQ(whyNot("<graphs/>"),
            "line 1: <graphs>: unknown root element, expected <system> (NCCL's topology XML) or <topology> (hwloc's)");
  EXPECT_EQ(whyNot("<system version='7'/>"),
            "line 1: <system>: version \"7\" is not supported, expected 1 or 2 (RCCL)");
  EXPECT_EQ(whyNot("<?xml version='1.0'?>\n<topology version='9.0'><object type='Machine'/></topology>"),
            "line 2: <topology>: version \"9.0\" of hwloc's XML is not supported, expected 1 or 2");
  EXPECT_NE(whyNot("<topology version='20.1'><object type='Machine'/></topology>"), "");
  EXPECT_EQ(whyNot("<system version='1'>\n</system>"), "line 1: <system>: contains no <cpu>");
  EXPECT_EQ(whyNot("<system>\n<cpu numaid='x'/></system>"), "line 2: <cpu>: numaid=\"x\" is not a number");
  EXPECT_EQ(whyNot("<system>\n<cpu affinity='zz'/></system>"), "line 2: <cpu>: affinity: \"zz\" is not hexadecimal");
  EXPECT_EQ(whyNot("<system><cpu host_hash='0x1'/>\n<cpu host_hash='0x2'/></system>"),
            "line 2: <cpu>: belongs to another host; use a file that describes one host");
  EXPECT_EQ(whyNot(inCpu("<pci busid='a' class='0x03zz00'/>\n")),
            "line 3: <pci>: class=\"0x03zz00\" is not a hexadecimal number");
  EXPECT_EQ(whyNot(inCpu("<pci class='0x030200' bps_bw='-1'/>\n")),
            "line 3: <pci>: bps_bw=\"-1\" is not from 0 to 1e+06");
  EXPECT_EQ(whyNot(inCpu("<pci busid='a' class='0x030200'/><pci busid='a' class='0x030200'/>\n")),
            "line 3: <pci>: another GPU has bus id a too");
  EXPECT_EQ(whyNot("<system><cpu/>\n<pci class='0x030200'/></system>"), "line 2: <pci>: is outside of every <cpu>");
}

TEST(TopologyXml, SizeAndDepthAreBounded) {
  std::string deep, many;
  for (int i = 0; i < 300; ++i) deep += "<pci class='0x060400'>";
  EXPECT_NE(whyNot(inCpu(deep)).find("elements nest too deeply"), std::string::npos);
  std::string bridges = "<pci class='0x030200'/>";
  for (int i = 0; i < 100; ++i) bridges = "<pci class='0x060400'>" + bridges + "</pci>";
  EXPECT_NE(whyNot(inCpu(bridges)).find("more than 32 bridges in a row"), std::string::npos);
  for (int i = 0; i < 5000; ++i) many += "<pci class='0x020000'/>";
  EXPECT_EQ(whyNot(inCpu(many)), "line 3: <pci>: more than 4096 devices");
  many.clear();
  for (int i = 0; i < 65; ++i) many += "<pci class='0x030200'/>";
  EXPECT_EQ(whyNot(inCpu(many)), "line 3: <pci>: more than 64 GPUs");
  for (int i = 0; i < 13; ++i) many += many;
  EXPECT_NE(whyNot(inCpu(many)).find("too many elements"), std::string::npos);
  EXPECT_NE(whyNot("<!DOCTYPE s [<!ENTITY a \"b\">]><system/>").find("entities are not supported"), std::string::npos);
}

TEST(TopologyXml, ReadsHwlocVersion2) {
  const Topology topology = machine(dataFile("two_core_vm.xml"));
  ASSERT_EQ(topology.all(NodeKind::kNuma).size(), 1U);
  const Cpu& cpu = topology.node(topology.all(NodeKind::kNuma)[0]).cpu;
  EXPECT_EQ(cpu.cpus.list(), "0-1");
  EXPECT_EQ(cpu.vendor, "AuthenticAMD");
  EXPECT_EQ(cpu.arch, "x86_64");
  ASSERT_EQ(topology.all(NodeKind::kNic).size(), 1U);
  EXPECT_EQ(topology.node(topology.all(NodeKind::kNic)[0]).name, "eth0");
}

TEST(TopologyXml, ReadsSwitchesDevicesAndNumaNodesOfHwloc) {
  const std::string port = "<object type='Bridge' bridge_type='1-1' pci_busid='0000:01:0%.0' pci_link_speed='31.5'>";
  const std::string gpu =
      "<object type='PCIDev' pci_busid='0000:0%:00.0' pci_type='0302 [10de:20b0] [10de:1450] a1' "
      "pci_link_speed='15.753846'/>";
  const auto numbered = [](std::string text, char n) { return text.replace(text.find('%'), 1, 1, n); };
  const std::string text =
      "<topology version='2.0'><object type='Machine' cpuset='0xf' nodeset='0x3'>\n"
      "<object type='Package' cpuset='0x3' nodeset='0x1'><object type='NUMANode' os_index='0' cpuset='0x3' "
      "nodeset='0x1'/></object>\n"
      "<object type='Package' cpuset='0xc' nodeset='0x2'><object type='NUMANode' os_index='1' cpuset='0xc' "
      "nodeset='0x2'/>\n"
      "<object type='Bridge' bridge_type='0-1'>" +
      numbered(port, '0') + numbered(port, '1') + numbered(port, '2') + numbered(gpu, '3') + "</object>" +
      numbered(port, '4') + numbered(gpu, '5') + "</object>" +
      "<object type='PCIDev' pci_busid='0000:06:00.0' pci_type='0207 [15b3:101b] [15b3:0007] 00'>"
      "<object type='OSDev' name='ib0' osdev_type='2'/><object type='OSDev' name='mlx5_0' osdev_type='3'/></object>"
      "<object type='PCIDev' pci_busid='0000:07:00.0' pci_type='0200 [15b3:101b] [15b3:0007] 00'/>"
      "<object type='PCIDev' pci_busid='0000:08:00.0' pci_type='0300 [1a03:2000] [1a03:2000] 41'/>"
      "</object></object></object></object></object></topology>";
  const Topology topology = parsed(text);
  ASSERT_EQ(topology.all(NodeKind::kGpu).size(), 2U);  // the management controller's display is excluded
  ASSERT_EQ(topology.all(NodeKind::kNic).size(), 1U);  // the NIC without a driver is excluded
  EXPECT_EQ(topology.node(topology.all(NodeKind::kNic)[0]).name, "mlx5_0");
  ASSERT_EQ(topology.all(NodeKind::kSwitch).size(), 1U);
  const NodeId first = topology.all(NodeKind::kGpu)[0];
  EXPECT_EQ(topology.nameOf(topology.numaOf(first)), "CPU 1");
  EXPECT_EQ(topology.nameOf(topology.switchOf(first)), "switch P0");
  EXPECT_NEAR(topology.node(first).pcie.rate(), 12 * kGiga, 1e6);
  EXPECT_TRUE(topology.besideNic(first));
}

TEST(TopologyXml, HwlocVersion1HasPackagesInNumaNodes) {
  const Topology topology = parsed(
      "<?xml version='1.0'?><!DOCTYPE topology SYSTEM 'hwloc.dtd'><topology><object type='Machine' nodeset='0x3'>"
      "<object type='NUMANode' os_index='0' cpuset='0x3' nodeset='0x1'><object type='Package'>"
      "<info name='CPUVendor' value='GenuineIntel'/><info name='CPUModelNumber' value='85'/></object></object>"
      "<object type='NUMANode' os_index='1' cpuset='0xc' nodeset='0x2'><object type='Bridge' bridge_type='0-1'>"
      "<object type='PCIDev' pci_busid='0000:06:00.0' pci_type='0200 [15b3:101b] [15b3:0007] 00'>"
      "<object type='OSDev' name='eth0' osdev_type='2'/></object></object></object></object></topology>");
  ASSERT_EQ(topology.all(NodeKind::kNuma).size(), 2U);
  EXPECT_EQ(topology.node(topology.all(NodeKind::kNuma)[0]).cpu.model, 85);
  EXPECT_EQ(topology.nameOf(topology.numaOf(topology.all(NodeKind::kNic).at(0))), "CPU 1");
}

TEST(TopologyXml, HwlocMachineWithoutNumaNodesIsOneNode) {
  const Topology topology = parsed(
      "<topology><object type='Machine' cpuset='0xf'><object type='Package' cpuset='0xf'>"
      "<info name='CPUVendor' value='AuthenticAMD'/><info name='CPUModelNumber' value='49'/></object>"
      "<object type='Bridge' bridge_type='0-1'>"
      "<object type='PCIDev' pci_busid='0000:06:00.0' pci_type='0200 [15b3:101b] [15b3:0007] 00'>"
      "<object type='OSDev' name='eth0' osdev_type='2'/></object></object></object></topology>");
  ASSERT_EQ(topology.all(NodeKind::kNuma).size(), 1U);
  const NodeId numa = topology.all(NodeKind::kNuma)[0];
  EXPECT_EQ(topology.node(numa).cpu.cpus.size(), 4U);
  EXPECT_EQ(topology.node(numa).cpu.vendor, "AuthenticAMD");
  EXPECT_EQ(topology.node(numa).cpu.model, 49);
  EXPECT_EQ(topology.numaOf(topology.all(NodeKind::kNic).at(0)), numa);
}

TEST(TopologyXml, DumpReadsBackAsTheSameMachine) {
  for (const char* name : {"pcie_only", "nvlink", "eight_nics", "cloud_vm", "cpu_only", "cloud_two_gpus_one_nic",
                           "cloud_numa_pairs", "two_core_vm"}) {
    const std::string dump = writeNcclXml(machine(dataFile(std::string(name) + ".xml")));
    EXPECT_EQ(writeNcclXml(parsed(dump)), dump) << name;
  }
  const Topology made =
      machine("cpu[sw[gpu*2:12.3 sw[gpu*2 nic]:20] nic*2:25]*2 nvlink=150 peer=9 memory=88.25 interconnect=31");
  EXPECT_TRUE(parsed(writeNcclXml(made)) == made);
}

TEST(TopologyXml, NcclCanReadTheDump) {
  const std::string dump =
      writeNcclXml(parsed(inCpu("<pci busid='0000:03:00.0' class='0x020000'><nic><net name='a&quot;&lt;&amp;" +
                                std::string(300, 'x') + "' speed='100'/></nic></pci>\n")));
  EXPECT_EQ(dump.find("<?xml"), std::string::npos);
  EXPECT_EQ(dump.find("  ", dump.find("<cpu")) < dump.find('>', dump.find("<cpu")), false);
  EXPECT_EQ(dump.find('&'), std::string::npos);
  EXPECT_NE(dump.find("name=\"a___" + std::string(251, 'x') + "\""), std::string::npos) << dump;
}

}  // namespace
}  // namespace bps
