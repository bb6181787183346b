// Tests that topologies load from synthetic text, from files and from this machine, and that errors name the source.
#include "topo/load_topology.h"

#include <gtest/gtest.h>
#include <filesystem>
#include <fstream>
#include <set>

#include "src/base/env.h"
#include "tests/unit/topo/machines.h"
#include "topo/detect/detect.h"
#include "topo/rates.h"
#include "topo/synthetic.h"

namespace bps {
namespace {

using test::dataFile;
using test::machine;

std::string whyNot(const std::string& source) {
  auto made = loadTopology(source);
  return made.ok() ? "fine" : made.error().message();
}

TEST(SyntheticMachine, ReadsCountsAndRates) {
  const Topology topology = machine("cpu[sw[gpu*2 nic:200]*2:20 nic*2] cpu[gpu:6]*2 pci=12 cores=4 memory=50");
  EXPECT_EQ(topology.all(NodeKind::kNuma).size(), 3U);
  EXPECT_EQ(topology.all(NodeKind::kSwitch).size(), 2U);
  EXPECT_EQ(topology.all(NodeKind::kGpu).size(), 6U);
  ASSERT_EQ(topology.all(NodeKind::kNic).size(), 4U);
  EXPECT_EQ(topology.node(topology.all(NodeKind::kNic)[0]).mbps, 200000);
  EXPECT_EQ(topology.node(topology.all(NodeKind::kNic)[3]).mbps, 100000);
  EXPECT_DOUBLE_EQ(topology.node(topology.all(NodeKind::kSwitch)[1]).pcie.rate(), 20 * kGiga);
  EXPECT_DOUBLE_EQ(topology.node(topology.all(NodeKind::kGpu)[0]).pcie.rate(), 12 * kGiga);
  EXPECT_DOUBLE_EQ(topology.node(topology.all(NodeKind::kGpu)[5]).pcie.rate(), 6 * kGiga);
  EXPECT_EQ(topology.node(topology.all(NodeKind::kNuma)[2]).cpu.cpus.list(), "8-11");
}

TEST(SyntheticMachine, ErrorsNameThePosition) {
  const char* kWrong[][2] = {{"cpu[gpu", "at \"\": expected ]"},
                             {"cpu[disk]", "at \"disk]\": expected sw[, gpu, nic or ]"},
                             {"cpu[gpu*0]", "expected a number above 0, at most 1024"},
                             {"cpu[gpu*1.5]", "expected a whole number"},
                             {"cpu[gpu] ram=3", "at \"ram=3\": expected pci=, nvlink="},
                             {"cpu[gpu] pci=x", "at \"x\": expected a number"},
                             {"cpu[gpu] cup", "expected cpu or a setting"},
                             {"cpu[nic*1024]*5", "more than 4096 devices"},
                             {"cpu*1024 cores=9", "too many cores"}};
  for (const auto& [text, why] : kWrong)
    EXPECT_NE(whyNot(text).find(why), std::string::npos) << text << ": " << whyNot(text);
  std::string deep = "cpu[";
  for (int i = 0; i < 60; ++i) deep += "sw[";
  EXPECT_NE(whyNot(deep).find("more than 32 bridges in a row"), std::string::npos);
  EXPECT_NE(whyNot("cpu[" + std::string(5000, ' ')).find("more than 4096 characters"), std::string::npos);
}

TEST(LoadTopology, ErrorsNameUnreadableFiles) {
  EXPECT_EQ(whyNot("/nonexistent/x.xml"), "topology /nonexistent/x.xml: cannot be read: No such file or directory");
  EXPECT_EQ(whyNot("/dev"), "topology /dev: is not a file");
  const std::string path = testing::TempDir() + "bps_topology_" + std::to_string(::getpid()) + ".xml";
  std::ofstream(path) << "<system version='1'>\n<cpu numaid='0'>\n</system>";
  EXPECT_EQ(whyNot(path), "topology " + path + ": line 3: mismatched tag");
  std::filesystem::remove(path);
}

TEST(LoadTopology, IgnoresFilesThatOnlyNcclAccepts) {
  Env env;
  env.topoFile = dataFile("nvlink.xml");
  env.topoDumpFile = "/nonexistent/dump.xml";
  env.fromNccl = {{"BPS_TOPO_DUMP_FILE", "NCCL_TOPO_DUMP_FILE"}};
  EXPECT_TRUE(loadAndDumpTopology(env).ok());
  env.topoFile.clear();
  env.ncclTopoFile = "/nonexistent/topology.xml";
  const auto detected = loadTopology(""), read = loadConfiguredTopology(env);
  EXPECT_EQ(read.ok(), detected.ok()) << read.error().message();
  EXPECT_EQ(std::string(read.error().message()), detected.error().message());
}

TEST(LoadTopology, VariablesNameInputAndDumpFile) {
  Env env;
  env.topoFile = dataFile("nvlink.xml");
  env.topoDumpFile = testing::TempDir() + "bps_dump_" + std::to_string(::getpid()) + ".xml";
  auto made = loadAndDumpTopology(env);
  ASSERT_TRUE(made.ok()) << made.error().message();
  EXPECT_TRUE(machine(env.topoDumpFile) == std::move(made).value());
  std::filesystem::remove(env.topoDumpFile);
  env.topoDumpFile = "/nonexistent/dump.xml";
  EXPECT_STREQ(loadAndDumpTopology(env).error().message(),
               "topology /nonexistent/dump.xml cannot be written: No such file or directory");
}

TEST(TopologyDetection, ThisMachineHasACpu) {
  if (!hwlocXml(kHwlocLibrary).ok()) GTEST_SKIP() << kHwlocLibrary << " is not installed";
  const Topology here = machine("");
  ASSERT_GE(here.all(NodeKind::kNuma).size(), 1U);
  EXPECT_FALSE(here.node(here.all(NodeKind::kNuma)[0]).cpu.cpus.empty());
}

TEST(TopologyDetection, ErrorNamesMissingHwloc) {
  EXPECT_STREQ(hwlocXml("libnosuch.so").error().message(),
               "libnosuch.so cannot be loaded: install libhwloc15, or set BPS_TOPO_FILE to a topology");
  EXPECT_STREQ(hwlocXml("libm.so.6").error().message(),
               "libm.so.6 lacks a function of hwloc 2.1; install hwloc 2.1 or later");
}

// A directory with the kernel's layout of sysfs. The directory contains a PCIe port, a GPU below this port, and several
// NICs.
class FakeSysfs {
 public:
  FakeSysfs() : root_(testing::TempDir() + "bps_sysfs_" + std::to_string(::getpid())) {
    const std::string port = root_ + "/devices/pci0000:00/0000:00:01.0";
    write(port + "/max_link_speed", "8.0 GT/s PCIe\n");
    write(port + "/max_link_width", "16\n");
    write(port + "/0000:01:00.0/max_link_speed", "16.0 GT/s PCIe\n");
    write(port + "/0000:01:00.0/max_link_width", "8\n");
    std::filesystem::create_directories(root_ + "/bus/pci/devices");
    std::filesystem::create_symlink(port + "/0000:01:00.0", root_ + "/bus/pci/devices/0000:01:00.0");
    write(root_ + "/class/infiniband/mlx5_0/ports/1/rate", "200 Gb/sec (4X HDR)\n");
    write(root_ + "/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n");
    write(root_ + "/class/infiniband/mlx5_1/ports/1/rate", "10 Gb/sec (4X)\n");
    write(root_ + "/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n");
    write(root_ + "/class/net/eth0/speed", "25000\n");
    write(root_ + "/class/net/eth0/operstate", "up\n");
    write(root_ + "/class/net/eth1/operstate", "down\n");
    write(root_ + "/class/net/eth2/speed", "-1\n");
  }
  ~FakeSysfs() { std::filesystem::remove_all(root_); }
  const std::string& root() const { return root_; }

 private:
  static void write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path) << text;
  }
  std::string root_;
};

TEST(TopologyDetection, SysfsGivesSpeedsAndDropsNicsWithoutLink) {
  const FakeSysfs sysfs;
  TopologyBuilder builder;
  auto cpu = builder.add({.kind = NodeKind::kNuma, .parent = kRoot});
  ASSERT_TRUE(cpu.ok());
  const NodeId numa = std::move(cpu).value();
  ASSERT_TRUE(builder.add({.kind = NodeKind::kGpu, .parent = numa, .pcie = {.busId = "0000:01:00.0"}}).ok());
  for (const char* name : {"mlx5_0", "mlx5_1", "eth0", "eth1", "eth2"})
    ASSERT_TRUE(builder.add({.kind = NodeKind::kNic, .parent = numa, .name = name}).ok());
  addSysfs(builder, sysfs.root());
  auto built = builder.build();
  ASSERT_TRUE(built.ok());
  const Topology topology = std::move(built).value();
  EXPECT_DOUBLE_EQ(topology.node(topology.all(NodeKind::kGpu)[0]).pcie.rate(), 6 * kGiga);  // 8 GT/s x8
  std::string nics;
  for (NodeId nic : topology.all(NodeKind::kNic))
    nics += topology.node(nic).name + " " + std::to_string(static_cast<int>(topology.node(nic).mbps)) + " ";
  EXPECT_EQ(nics, "mlx5_0 200000 eth0 25000 eth2 0 ");
}

std::string fakeNvml() { return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "libfake-nvml.so"; }

// The GPUs of the fake NVML library have the bus ids 0000:00 to 0000:02. Synthetic GPUs must have other bus ids.
TEST(TopologyDetection, SyntheticDevicesMatchNoRealDevice) {
  std::set<std::string> ids;
  const Topology topology = machine("cpu[sw[gpu*4 nic]*2]*6");
  for (const Node& node : topology.nodes()) {
    if (node.kind == NodeKind::kMachine || node.kind == NodeKind::kNuma) continue;
    EXPECT_EQ(node.pcie.busId.substr(0, 4), "ffff");
    EXPECT_TRUE(ids.insert(node.pcie.busId).second) << node.pcie.busId;
  }
  EXPECT_EQ(ids.size(), 72U);
  TopologyBuilder builder = std::move(readSynthetic("cpu[gpu*3]")).value();
  EXPECT_EQ(addNvml(builder, fakeNvml().c_str()), "");
  EXPECT_TRUE(builder.nvlinks().empty());
}

TEST(TopologyDetection, NvmlGivesNvlinksByBusId) {
  const std::string library = fakeNvml();
  TopologyBuilder builder;
  const NodeId numa = std::move(builder.add({.kind = NodeKind::kNuma, .parent = kRoot})).value();
  for (const char* busId : {"0000:00:00.0", "0000:01:00.0", "0000:02:00.0"})
    ASSERT_TRUE(builder.add({.kind = NodeKind::kGpu, .parent = numa, .pcie = {.busId = busId}}).ok());
  EXPECT_EQ(addNvml(builder, library.c_str()), "");
  auto built = builder.build();
  ASSERT_TRUE(built.ok());
  const Topology topology = std::move(built).value();
  std::string links;
  for (LinkId id = 0; id < topology.links().size(); ++id)
    if (topology.link(id).kind == LinkKind::kNvlink)
      links += topology.nameOfLink(id) + " x" + std::to_string(topology.link(id).count) + "; ";
  EXPECT_EQ(links, "GPU 0 - GPU 1 (NVLink) x2; GPU 0 - NVSwitch x1; GPU 1 - NVSwitch x1; ");
  EXPECT_EQ(topology.node(topology.all(NodeKind::kGpu)[0]).sm, 90);
  EXPECT_EQ(addNvml(builder, "libnosuch-nvml.so"), "libnosuch-nvml.so cannot be loaded");
  EXPECT_EQ(addNvml(builder, "libm.so.6"), "libm.so.6 lacks a function of NVML");
}

}  // namespace
}  // namespace bps
