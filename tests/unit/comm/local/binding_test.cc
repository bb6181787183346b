// Tests Binding, which chooses the CPUs of progress threads and the NUMA nodes of shared memory.
#include "src/comm/local/machine/binding.h"

#include <gtest/gtest.h>

#include "topo/synthetic.h"
#include "topo/xml/topology_xml.h"

namespace bps {
namespace {

using Cpus = std::vector<unsigned>;

class Binding : public testing::Test {
 protected:
  // Plans a machine on which rank i uses GPU i. If there are more ranks than GPUs, the remaining ranks use host memory.
  void plan(const std::string& machine, size_t ranks) {
    MachineSpec machineSpec;
    machineSpec.topology = writeNcclXml(std::move(std::move(readSynthetic(machine)).value().build()).value());
    machineSpec.userDescribed = true;
    machineSpec.devices.resize(ranks);
    machineSpec.network = 1;
    plan_ = std::move(MachinePlan::make(machineSpec)).value();
  }
  Cpus cpusOf(size_t rank, const CpuAvailability& here, bool ignoreUser = false) const {
    return progressThreadCpus(*plan_, rank, here, ignoreUser);
  }

  std::unique_ptr<const MachinePlan> plan_;
  const Cpus all_ = CpuSet::range(0, 8).cpus();
};

TEST_F(Binding, ThreadsRunOnTheirShareOfTheGpusNumaNode) {
  plan("cpu[gpu*2] cpu[gpu*2] cores=4", 4);
  EXPECT_EQ(cpusOf(0, {all_, all_}), (Cpus{0, 1}));
  EXPECT_EQ(cpusOf(1, {all_, all_}), (Cpus{2, 3}));
  EXPECT_EQ(cpusOf(3, {all_, all_}), (Cpus{6, 7}));
}

TEST_F(Binding, UserAffinityHoldsUnlessIgnored) {
  plan("cpu[gpu] cpu[gpu] cores=4", 2);
  EXPECT_EQ(cpusOf(1, {all_, {0, 1}}), Cpus());
  EXPECT_EQ(cpusOf(1, {all_, {0, 1}}, true), (Cpus{4, 5, 6, 7}));
}

TEST_F(Binding, NothingIsBoundWithoutNumaChoice) {
  plan("cpu[gpu*2] cores=8", 2);
  EXPECT_EQ(cpusOf(0, {all_, all_}), Cpus()) << "one node";
  plan("cpu[gpu] cpu[gpu] cores=8", 2);
  EXPECT_EQ(cpusOf(0, {all_, all_}, true), Cpus()) << "another machine's file";
  plan("cpu[gpu] cpu[gpu] cores=4", 3);
  EXPECT_EQ(cpusOf(2, {all_, all_}), Cpus()) << "in host memory";
}

TEST_F(Binding, SingleRankUsesTheNicNextToItsGpu) {
  const Topology machine =
      std::move(std::move(readSynthetic("cpu[sw[gpu nic] sw[gpu nic] gpu]")).value().build()).value();
  const std::vector<std::string> nics = {"nic0", "nic1", "nic0"};
  for (size_t i = 0; i < nics.size(); ++i) {
    MachineSpec machineSpec;
    machineSpec.topology = writeNcclXml(machine);
    machineSpec.devices = {machine.node(machine.all(NodeKind::kGpu)[i]).pcie.busId};
    machineSpec.network = 1;
    plan_ = std::move(MachinePlan::make(machineSpec)).value();
    EXPECT_EQ(plan_->topology.node(plan_->assignmentOf(0)->nic).name, nics[i]);
    EXPECT_EQ(plan_->whyNoGpuDirect(0), i < 2 ? "" : "GPU 2 and NIC nic0 share no PCIe switch");
  }
}

TEST_F(Binding, MemoryIsOnTheNodesOfRanksAndSummation) {
  plan("cpu[sw[gpu*2] nic:100] cpu[sw[gpu*2] nic:300] cores=4", 4);
  ASSERT_EQ(plan_->program.plan().strategy, Strategy::kCpuAssisted);
  const std::vector<NumaRange> want = {{0, 0, 4096, 0}, {1, 0, 4096, 0}, {2, 0, 4096, 1},
                                       {3, 0, 4096, 1}, {4, 0, 1024, 0}, {4, 1024, 4096, 1}};
  EXPECT_EQ(numaRanges(plan_->topology, plan_->program.plan(), 4096), want);
}

TEST_F(Binding, KernelAcceptsCpuMasks) {
  const CpuAvailability here = readCpuAvailability();
  ASSERT_FALSE(here.online.empty());
  ASSERT_FALSE(here.allowed.empty());
  EXPECT_TRUE(bindThread(here.allowed).ok());
  EXPECT_TRUE(bindThread({}).ok());
}

}  // namespace
}  // namespace bps
