// Tests bestMixture(), which mixes cpu_assisted with brute force: every rank copies the fraction x of its buffer to
// host memory, where the CPU adds all copies. The result must agree with the published formula.
#include "tools/bps_topo/mixture.h"

#include <gtest/gtest.h>

#include "tests/unit/topo/machines.h"
#include "topo/rates.h"

namespace bps {
namespace {

using test::dataFile;
using test::decide;
using test::machine;

Mixture mixtureOf(const Topology& topology, const Decision& decision, const LocalPlanRequest& job) {
  return bestMixture(topology, decision.candidates[0].plan, job.bytes, job.unit);
}

TEST(Mixture, IsNinePercentFasterWithoutNvlink) {
  const Topology topology = machine(dataFile("pcie_only.xml"));
  const Decision decision = decide(topology);
  const Mixture best = mixtureOf(topology, decision, {});
  EXPECT_NEAR(best.x, 0.2, 1e-9);
  EXPECT_NEAR(decision.best().seconds / best.seconds, 1.094, 0.001);
}

TEST(Mixture, MatchesThePublishedFormula) {
  // The test tries all x with y = 1 - x, for several numbers l of GPUs per switch. A switch's link has the rate b_s and
  // takes the time (l x + y) M / b_s. A GPU's link has the rate b_g and takes the time (x + (2l-1) y / l) M / b_g.
  for (int l : {1, 2, 3, 4, 8})
    for (double switchRate : {6.0, 13.1, 24.0}) {
      const Topology topology = machine("cpu[nic] cpu[sw[gpu*" + std::to_string(l) + "]:" + std::to_string(switchRate) +
                                        " sw[gpu*" + std::to_string(l) + "]:" + std::to_string(switchRate) + "]");
      double least = 1e9;
      for (int i = 0; i <= 10000; ++i) {
        const double x = i / 10000.0, y = 1 - x;
        // If a switch has only one GPU, the links of the switch and of the GPU count as one link.
        const double bs = l == 1 ? std::min(switchRate, 13.1) : switchRate;
        least = std::min(least, std::max((l * x + y) / bs, (x + (2 * l - 1) * y / l) / (l == 1 ? bs : 13.1)));
      }
      LocalPlanRequest job;
      job.bytes = uint64_t{840} << 20;
      const Decision decision = decide(topology, job);
      const double expected = std::max(least * static_cast<double>(job.bytes) / kGiga,
                                       static_cast<double>(job.bytes) / (13.1 * kGiga));  // time on the NIC's link
      const Mixture best = mixtureOf(topology, decision, job);
      EXPECT_NEAR(best.seconds / expected, 1, 1e-4) << l << " " << switchRate;
    }
}

TEST(Mixture, MinimizesTheSlowestLine) {
  EXPECT_DOUBLE_EQ(minimizeSlowestLine({4, 1}, {1, 4}).x, 0.5);
  EXPECT_DOUBLE_EQ(minimizeSlowestLine({4, 1, 3}, {1, 4, 3}).seconds, 3);
  EXPECT_DOUBLE_EQ(minimizeSlowestLine({1, 1}, {2, 1}).x, 0);
  EXPECT_DOUBLE_EQ(minimizeSlowestLine({2, 1}, {1, 1}).x, 1);
  EXPECT_DOUBLE_EQ(minimizeSlowestLine({}, {}).seconds, 0);
  EXPECT_DOUBLE_EQ(minimizeSlowestLine({0, 0}, {0, 0}).seconds, 0);
}

}  // namespace
}  // namespace bps
