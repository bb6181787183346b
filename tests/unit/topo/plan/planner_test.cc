// Tests the planner. The machines of the BytePS paper must get the published strategies and numbers. The predicted
// traffic must equal the published table. The two principles of planner.h must hold on any machine.
#include "topo/plan/planner.h"

#include <gtest/gtest.h>

#include <random>

#include "tests/unit/topo/machines.h"

namespace bps {
namespace {

using test::candidateFor;
using test::dataFile;
using test::decide;
using test::linkNamed;
using test::machine;

constexpr uint64_t kBytes = uint64_t{64} << 20;

std::vector<size_t> rootGpus(const Topology& topology, const Decision& decision) {
  std::vector<size_t> gpus;
  const LocalPlan& plan = decision.best().plan;
  for (size_t rank : plan.roots) gpus.push_back(topology.indexOf(plan.placement.ranks[rank].location));
  return gpus;
}

TEST(Planner, ChoosesCpuAssistedWithoutNvlink) {
  const Topology topology = machine(dataFile("pcie_only.xml"));
  const Decision decision = decide(topology);
  EXPECT_EQ(decision.switches.withNic, 0);
  EXPECT_EQ(decision.switches.withoutNic, 2);
  EXPECT_EQ(decision.best().plan.strategy, Strategy::kCpuAssisted);
  const double ring = candidateFor(decision, Strategy::kFlatRing).seconds / decision.best().seconds;
  EXPECT_NEAR(ring, 1.31, 0.001);
  EXPECT_GE(1 - 1 / ring, 0.236);
  EXPECT_LE(1 - 1 / ring, 0.238);
  EXPECT_TRUE(candidateFor(decision, Strategy::kFlatRing).copiesCrossSwitches);
  EXPECT_FALSE(decision.best().copiesCrossSwitches);
}

TEST(Planner, ChoosesScatterWithNvlink) {
  const Topology topology = machine(dataFile("nvlink.xml"));
  LocalPlanRequest job;
  for (size_t roots : {0, 1, 2, 3}) {
    job.roots = roots;
    const Decision decision = decide(topology, job);
    EXPECT_EQ(decision.switches.withNic, 1);
    EXPECT_EQ(decision.switches.withoutNic, 3);
    EXPECT_EQ(decision.best().plan.strategy, Strategy::kRooted);
    const std::vector<size_t> gpus = rootGpus(topology, decision);
    const std::vector<size_t> expected = {2, 3, 4};
    EXPECT_EQ(gpus,
              std::vector<size_t>(expected.begin(),
                                  expected.begin() + std::max<std::ptrdiff_t>(1, static_cast<std::ptrdiff_t>(roots))));
    EXPECT_NE(decision.reason.find("not GPU 0-1"), std::string::npos) << decision.reason;
    if (roots == 3) {
      EXPECT_NE(decision.reason.find("GPU 4 is a root although"), std::string::npos) << decision.reason;
    }
  }
  // A similar machine with an NVSwitch.
  EXPECT_EQ(decide(machine("cpu[sw[gpu*2 nic] sw[gpu*2]] cpu[sw[gpu*2]*2] nvlink=150")).best().plan.strategy,
            Strategy::kRooted);
}

TEST(Planner, PlansAMachineWithEightNics) {
  const Decision decision = decide(machine(dataFile("eight_nics.xml")));
  EXPECT_EQ(decision.switches.withoutNic, 0);
  EXPECT_EQ(decision.best().plan.strategy, Strategy::kScatter);
}

TEST(Planner, TrafficMatchesThePublishedTable) {
  const Topology pcie = machine(dataFile("pcie_only.xml")), nvlink = machine(dataFile("nvlink.xml"));
  LocalPlanRequest job;
  job.bytes = kBytes;
  const Decision decision = decide(pcie, job);
  constexpr uint64_t kPeers = 7 * kBytes / 4;
  for (size_t gpu = 0; gpu < 8; ++gpu) {
    const std::string name = "GPU " + std::to_string(gpu) + " - switch P" + std::to_string(gpu / 4);
    const LinkBytes& assisted = decision.best().traffic.linkBytes(linkNamed(pcie, name));
    const LinkBytes& ring = candidateFor(decision, Strategy::kFlatRing).traffic.linkBytes(linkNamed(pcie, name));
    for (bool up : {true, false}) {
      EXPECT_EQ(assisted.total(up), kPeers);  // (2l-1)M/l with l = 4 GPUs per switch
      EXPECT_EQ((up ? ring.up : ring.down)[size_t(CopyKind::kPeer)], kPeers);
    }
  }
  for (const char* name : {"switch P0 - CPU 0", "switch P1 - CPU 1"}) {
    const LinkBytes& assisted = decision.best().traffic.linkBytes(linkNamed(pcie, name));
    const LinkBytes& ring = candidateFor(decision, Strategy::kFlatRing).traffic.linkBytes(linkNamed(pcie, name));
    for (bool up : {true, false}) {
      EXPECT_EQ(assisted.total(up), kBytes);
      EXPECT_EQ((up ? ring.up : ring.down)[size_t(CopyKind::kPeer)], kPeers);
    }
  }
  const Decision rooted = decide(nvlink, job);
  for (bool up : {true, false}) {
    const auto linkBytes = [&](const char* name) { return rooted.best().traffic.linkBytes(linkNamed(nvlink, name)); };
    EXPECT_EQ(linkBytes("switch P1 - CPU 0").total(up), kBytes);
    EXPECT_EQ(linkBytes("GPU 2 - switch P1").total(up), kBytes);
    EXPECT_EQ(linkBytes("GPU 3 - switch P1").total(up), 0U);
    EXPECT_EQ(linkBytes("switch P0 - CPU 0").gpuBytes(up), 0U);
    EXPECT_EQ(linkBytes("switch P0 - CPU 0").total(up), kBytes);  // the network's bytes
  }
}

TEST(Planner, StrategyNamesOverrideTheChoice) {
  const Topology topology = machine(dataFile("pcie_only.xml"));
  for (Strategy strategy : kStrategies) {
    auto named = parseStrategy(std::string(nameOf(strategy)));
    ASSERT_TRUE(named.ok());
    LocalPlanRequest job;
    job.strategy = std::move(named).value();
    const Decision decision = decide(topology, job);
    EXPECT_EQ(decision.best().plan.strategy, strategy);
    EXPECT_NE(decision.reason.find("requested"), std::string::npos);
  }
  EXPECT_EQ(std::move(parseStrategy("auto")).value(), std::nullopt);
  EXPECT_STREQ(parseStrategy("ring").error().message(),
               "strategy ring does not exist, expected one of auto, cpu_assisted, scatter, rooted, flat_ring");
}

TEST(Planner, ErrorsNameInvalidRequests) {
  const Topology topology = machine("cpu[gpu*2]");
  const auto whyNot = [&](const LocalPlanRequest& job) {
    return std::string(planLocal(topology, job).error().message());
  };
  EXPECT_EQ(whyNot({.gpus = {0, 5}}), "local rank 1: GPU 5 does not exist; the topology has 2, counted from 0");
  EXPECT_EQ(whyNot({.gpus = {0}, .roots = 2}), "2 roots for 1 ranks, expected at most one root per rank");
  EXPECT_EQ(whyNot({.gpus = {0}, .unit = 0}), "the element size is 0 bytes, expected at least 1");
}

TEST(Planner, OneMachineNeedsNoHostMemoryWithinASwitch) {
  LocalPlanRequest job;
  job.network = 0;
  const Topology topology = machine("cpu[sw[gpu*4 nic]]");
  const Decision decision = decide(topology, job);
  EXPECT_FALSE(decision.best().plan.staged);
  EXPECT_EQ(decision.best().traffic.linkBytes(linkNamed(topology, "switch P0 - CPU 0")).total(true), 0U);
  EXPECT_TRUE(candidateFor(decide(machine("cpu[sw[gpu*2]*2]"), job), Strategy::kCpuAssisted).plan.staged);
}

// Returns the synthetic text of a random machine. Its switches may nest, its NICs may be anywhere, and it may have
// NVLink.
std::string randomMachine(std::mt19937& random) {
  const auto upTo = [&](unsigned most) { return static_cast<unsigned>(random() % (most + 1)); };
  const auto devices = [&](bool nest, const auto& self) -> std::string {
    std::string text;
    if (upTo(3) > 0) text += " gpu*" + std::to_string(1 + upTo(3));
    if (upTo(1) > 0) text += " nic*" + std::to_string(1 + upTo(1)) + ":" + std::to_string(25 << upTo(3));
    for (unsigned i = nest ? upTo(2) : 0; i > 0; --i) text += " sw[" + self(false, self) + "]";
    return text;
  };
  std::string text;
  for (unsigned cpus = 1 + upTo(2); cpus > 0; --cpus) {
    text += text.empty() ? "cpu[" : " cpu[";
    for (unsigned i = upTo(2); i > 0; --i) text += " sw[" + devices(true, devices) + "]";
    text += devices(false, devices) + "]";
  }
  return text + (upTo(1) > 0 ? " nvlink=150" : "") + " pci=" + std::to_string(6 << upTo(2));
}

// Checks that every strategy moves the whole buffer of every rank, and that the choice follows the two principles of
// planner.h.
void check(const Topology& topology, const Decision& decision, uint64_t bytes, uint64_t unit) {
  const Candidate& best = decision.best();
  EXPECT_FALSE(best.copiesCrossSwitches);
  for (const Candidate& other : decision.candidates) {
    if (other.copiesCrossSwitches) continue;
    EXPECT_LE(best.seconds, other.seconds * (1 + 1e-8));
    if (other.seconds == best.seconds) {
      EXPECT_LE(best.besideNic, other.besideNic);
    }
  }
  for (const Candidate& made : decision.candidates) {
    const LocalPlan& plan = made.plan;
    const std::vector<Copy> copies = copiesOf(plan, bytes, unit);
    for (size_t rank = 0; rank < plan.placement.ranks.size(); ++rank) {
      // At least as many bytes as the whole buffer must leave the memory of each rank, and as many must enter it.
      const NodeId location = plan.placement.ranks[rank].location;
      uint64_t out = 0, in = 0;
      for (const Copy& copy : copies) {
        if (copy.kind != CopyKind::kPeer && copy.kind != CopyKind::kStaging) continue;
        if (copy.from == location) out += copy.bytes;
        if (copy.to == location) in += copy.bytes;
      }
      if (plan.staged || plan.placement.ranks.size() > 1) {
        EXPECT_GE(out + bytes / plan.placement.ranks.size() + unit, bytes) << nameOf(plan.strategy);
        EXPECT_GE(in + bytes / plan.placement.ranks.size() + unit, bytes) << nameOf(plan.strategy);
      }
    }
    uint64_t network = 0;
    for (NodeId nic : topology.all(NodeKind::kNic))
      network += made.traffic.linkBytes(topology.uplink(nic)).down[size_t(CopyKind::kNic)];
    if (!plan.placement.nics.empty()) {
      EXPECT_EQ(network, bytes) << nameOf(plan.strategy);
    }
  }
}

TEST(Planner, PrinciplesHoldOnAnyMachine) {
  std::mt19937 random(20251121);
  for (int i = 0; i < 40; ++i) {
    const std::string text = randomMachine(random);
    SCOPED_TRACE(text);
    const Topology topology = machine(text);
    LocalPlanRequest job;
    job.bytes = 4 * 1001 + 4 * (random() % 100);
    if (topology.all(NodeKind::kGpu).size() > 10) continue;
    const Decision decision = decide(topology, job);
    check(topology, decision, job.bytes, job.unit);
    // A root may be beside a NIC only if every GPU is beside a NIC.
    const Candidate& rooted = candidateFor(decision, Strategy::kRooted);
    const auto& gpus = topology.all(NodeKind::kGpu);
    const bool choice = std::any_of(gpus.begin(), gpus.end(), [&](NodeId gpu) { return !topology.besideNic(gpu); });
    if (choice && rooted.plan.strategy == Strategy::kRooted && !rooted.copiesCrossSwitches) {
      EXPECT_EQ(rooted.besideNic, 0U);
    }
    // A plan also predicts the traffic for other buffer sizes. An empty buffer has no traffic.
    EXPECT_EQ(predict(topology, rooted.plan, 0, 4).linkBytes(0).total(true), 0U);
  }
}

TEST(Planner, PlansRanksInHostMemory) {
  const Topology topology = machine(dataFile("cpu_only.xml"));
  for (size_t ranks : {1, 2, 3, 8}) {
    LocalPlanRequest job;
    job.gpus.assign(ranks, -1);
    const Decision decision = decide(topology, job);
    EXPECT_EQ(decision.best().plan.strategy, Strategy::kCpuAssisted);
    EXPECT_EQ(decision.best().plan.placement.groups.size(), ranks);
    check(topology, decision, job.bytes, job.unit);
  }
}

}  // namespace
}  // namespace bps
