// Tests LocalProgram. The ranks may run their steps in any order that the waits allow. Every rank must get the right
// sum bit for bit. No rank may add a byte twice, or read a byte before it is written.
#include "topo/plan/program.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "tests/unit/topo/machines.h"

namespace bps {
namespace {

using test::candidateFor;
using test::dataFile;
using test::decide;
using test::linkNamed;
using test::machine;

// In this test, every byte of memory is a text instead of a number. The text is the expression that produced the byte.
using Text = std::string;

// Runs the steps of all ranks on one chunk, with expressions as the bytes of memory.
class Simulation {
 public:
  Simulation(const LocalProgram& program, uint64_t bytes, uint64_t unit)
      : program_(program),
        areas_(program.ranks() + 1, std::vector<Text>(bytes)),
        results_(areas_),
        byEach_(program.isReducedRedundantly(bytes)),
        done_(program.ranks()) {
    for (size_t rank = 0; rank < program.ranks(); ++rank) steps_.push_back(program.steps(rank, bytes, unit));
  }

  // Chooses ranks at random until all steps are done. A chosen rank runs its next step if that step may run.
  void run(unsigned seed) {
    std::mt19937 random(seed);
    for (size_t left = program_.ranks() * program_.stages(), idle = 0; left > 0;) {
      const size_t rank = random() % program_.ranks();
      if (!mayStep(rank)) {
        ASSERT_LT(++idle, 100000U) << "no rank can continue";
        continue;
      }
      for (const Piece& piece : steps_[rank][done_[rank]].pieces) carryOut(rank, piece);
      ++done_[rank];
      --left;
      idle = 0;
    }
  }
  const std::vector<Text>& result(size_t rank) const { return results_[rank]; }

 private:
  bool mayStep(size_t rank) const {
    const size_t stage = done_[rank];
    if (stage == 0 || stage == program_.stages()) return stage == 0;
    if (byEach_ && stage + 1 < program_.stages()) return true;
    if (steps_[rank][stage].pieces.empty() && stage > 1 && stage + 1 < program_.stages()) return true;
    if (!program_.waitsForAll(stage)) return done_[program_.predecessor(rank)] >= stage;
    return std::all_of(done_.begin(), done_.end(), [&](size_t done) { return done >= stage; });
  }

  Text read(size_t rank, const Source& source, bool alone, uint64_t at) const {
    if (source.area == Source::kOwn) return alone ? "r" + std::to_string(rank) : "s*r" + std::to_string(rank);
    const Text text = source.area == Source::kSumArea ? areas_.back()[at] : areas_[source.area][at];
    EXPECT_NE(text, "") << "rank " << rank << " reads unwritten memory";
    return alone || source.contributor == Source::kPartialSum ? text : "s*" + text;
  }

  void carryOut(size_t rank, const Piece& piece) {
    for (uint64_t at = piece.part.begin; at < piece.part.end; ++at) {
      const bool copied = piece.sources.size() == 1;
      Text text = read(rank, piece.sources[0], copied, at);
      for (size_t i = 1; i < piece.sources.size(); ++i) text += "+" + read(rank, piece.sources[i], false, at);
      if (!copied) text = "(" + text + ")";
      if (piece.completes) text += "/n";
      Text& target = piece.target == Piece::Target::kResult    ? results_[rank][at]
                     : piece.target == Piece::Target::kSumArea ? areas_.back()[at]
                                                               : areas_[rank][at];
      EXPECT_EQ(target, "") << "rank " << rank << " writes twice";
      target = text;
    }
  }

  const LocalProgram& program_;
  std::vector<std::vector<Text>> areas_, results_;
  const bool byEach_;
  std::vector<size_t> done_;
  std::vector<std::vector<Step>> steps_;
};

std::string scaled(const std::vector<size_t>& ranks) {
  std::string text;
  for (size_t rank : ranks) text += (text.empty() ? "s*r" : "+s*r") + std::to_string(rank);
  return "(" + text + ")";
}

// Returns the sum in the documented order. `owner` is the rank that drives the byte's part of the chunk. `owner`
// matters only if the ranks sum along a ring.
std::string expectedSum(const LocalPlan& plan, size_t owner) {
  std::vector<size_t> all(plan.placement.ranks.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  if (plan.strategy == Strategy::kFlatRing || (plan.strategy != Strategy::kCpuAssisted && plan.alongRing)) {
    const size_t at = static_cast<size_t>(std::find(plan.ring.begin(), plan.ring.end(), owner) - plan.ring.begin());
    std::string sum;
    for (size_t i = 1; i <= all.size(); ++i) {
      const std::string next = "s*r" + std::to_string(plan.ring[(at + i) % all.size()]);
      sum = i == 1 ? next : "(" + sum + "+" + next + ")";
    }
    return sum + "/n";
  }
  if (plan.strategy != Strategy::kCpuAssisted) return scaled(all) + "/n";
  const auto& groups = plan.placement.groups;
  if (groups.size() == 1) return scaled(all) + "/n";
  std::string sum;
  for (const SwitchGroup& group : groups) {
    const std::string candidateFor =
        group.ranks.size() == 1 ? "s*r" + std::to_string(group.ranks[0]) : scaled(group.ranks);
    sum += (sum.empty() ? "" : "+") + candidateFor;
  }
  return "(" + sum + ")/n";
}

size_t ownerOf(const LocalPlan& plan, uint64_t bytes, uint64_t unit, uint64_t at) {
  const std::vector<uint64_t> offsets = cutByAssignment(bytes, unit, plan.assignments);
  size_t d = 0;
  while (offsets[d + 1] <= at) ++d;
  return plan.assignments[d].rank;
}

struct Machine {
  std::string source;
  std::vector<int> gpus;
};

// Returns machines with switch groups of equal and unequal size, with single ranks, with ranks in host memory, and with
// and without NVLink and NICs.
const std::vector<Machine>& machines() {
  static const std::vector<Machine> list = {
      {dataFile("pcie_only.xml"), {0, 1, 2, 3, 4, 5, 6, 7}},
      {dataFile("pcie_only.xml"), {0, 4, 5, 6}},
      {dataFile("pcie_only.xml"), {0, 4, 1}},
      {dataFile("pcie_only.xml"), {0, 1, 4, -1, -1}},
      {dataFile("nvlink.xml"), {0, 1, 2, 3, 4, 5, 6, 7}},
      {dataFile("nvlink.xml"), {0, 2}},
      {dataFile("eight_nics.xml"), {0, 1, 2, 3, 4, 5, 6, 7}},
      {dataFile("eight_nics.xml"), {3, 2, 1}},
      {dataFile("cpu_only.xml"), {-1, -1, -1, -1}},
      {"cpu[sw[gpu*4 nic]]", {0, 1, 2, 3}},
      {"cpu[nic nic] cpu[nic:400 sw[gpu*3]]", {0, 1, 2}},
      {"cpu[nic] cpu[gpu*2]", {0, 1}},
      {"cpu", {-1, -1, -1}},
  };
  return list;
}

TEST(LocalProgram, EveryRankGetsTheDocumentedSum) {
  for (const Machine& each : machines())
    for (double network : {0.0, 1.0})
      for (size_t roots : {1U, 2U}) {
        LocalPlanRequest job;
        job.gpus = each.gpus;
        job.network = network;
        job.roots = roots;
        const Topology topology = machine(each.source);
        const Decision decision = decide(topology, job);
        for (const Candidate& candidate : decision.candidates) {
          const LocalProgram program(candidate.plan);
          for (const auto& [bytes, unit] :
               std::vector<std::pair<uint64_t, uint64_t>>{{0, 4}, {4, 4}, {28, 4}, {68, 1}, {130, 2}}) {
            SCOPED_TRACE(each.source + " " + std::string(nameOf(candidate.plan.strategy)) + " " +
                         std::to_string(each.gpus.size()) + " ranks, " + std::to_string(bytes) + " bytes");
            Simulation simulation(program, bytes, unit);
            simulation.run(static_cast<unsigned>(bytes));
            for (size_t rank = 0; rank < program.ranks(); ++rank)
              for (uint64_t at = 0; at < bytes; ++at)
                ASSERT_EQ(simulation.result(rank)[at],
                          expectedSum(candidate.plan, ownerOf(candidate.plan, bytes, unit, at)));
          }
        }
      }
}

uint64_t addedUpIn(const LocalProgram& program, size_t stage, uint64_t bytes) {
  uint64_t sum = 0;
  for (size_t rank = 0; rank < program.ranks(); ++rank) {
    const std::vector<Step> steps = program.steps(rank, bytes, 4);
    for (const Piece& piece : steps[stage].pieces)
      if (piece.completes) sum += piece.part.size();
  }
  return sum;
}

// If a chunk is small, every rank sums the whole chunk itself. The largest such chunk and a chunk with one more element
// must both have the documented sum.
TEST(LocalProgram, SmallChunksInHostMemoryAreReducedRedundantly) {
  LocalPlanRequest job;
  job.gpus = {-1, -1, -1};
  job.network = 0;
  for (const Candidate& candidate : decide(machine("cpu"), job).candidates) {
    SCOPED_TRACE(std::string(nameOf(candidate.plan.strategy)));
    const LocalProgram program(candidate.plan);
    const bool onRing = candidate.plan.strategy == Strategy::kFlatRing;
    EXPECT_EQ(program.isReducedRedundantly(8), !onRing);
    uint64_t small = 4;
    while (program.isReducedRedundantly(small + 4)) small += 4;
    const size_t last = program.stages() - 1;
    EXPECT_EQ(addedUpIn(program, last, small), onRing ? 0 : 3 * small);
    EXPECT_EQ(addedUpIn(program, last, small + 4), 0U);
    for (const uint64_t bytes : {small, small + 4}) {
      Simulation simulation(program, bytes, 4);
      simulation.run(7);
      for (size_t rank = 0; rank < 3; ++rank)
        for (uint64_t at = 0; at < bytes; at += 97)
          ASSERT_EQ(simulation.result(rank)[at], expectedSum(candidate.plan, ownerOf(candidate.plan, bytes, 4, at)));
    }
  }
}

TEST(LocalProgram, NothingIsReducedRedundantlyAcrossNetworkOrGpus) {
  for (const Machine& each : machines())
    for (double network : {0.0, 1.0}) {
      LocalPlanRequest job;
      job.gpus = each.gpus;
      job.network = network;
      const bool allInHostMemory = std::all_of(each.gpus.begin(), each.gpus.end(), [](int gpu) { return gpu < 0; });
      for (const Candidate& candidate : decide(machine(each.source), job).candidates)
        if (network > 0 || !allInHostMemory) {
          EXPECT_FALSE(LocalProgram(candidate.plan).isReducedRedundantly(0)) << each.source;
        }
    }
}

// The copies of a step must account for all bytes that the step reads or writes in shared memory, except bytes that a
// rank copies to itself.
TEST(LocalProgram, CopiesMatchTheBytesMoved) {
  LocalPlanRequest job;
  const Topology topology = machine(dataFile("pcie_only.xml"));
  const LocalProgram program(candidateFor(decide(topology, job), Strategy::kCpuAssisted).plan);
  const uint64_t bytes = 6400;
  for (size_t rank = 0; rank < 8; ++rank) {
    const std::vector<Step> steps = program.steps(rank, bytes, 4);
    ASSERT_EQ(steps.size(), 4U);
    uint64_t pieces[4] = {}, copies[4] = {};
    for (size_t stage = 0; stage < 4; ++stage) {
      for (const Piece& piece : steps[stage].pieces) pieces[stage] += piece.part.size();
      for (const Copy& copy : steps[stage].copies) copies[stage] += copy.bytes;
    }
    EXPECT_EQ(pieces[0], bytes * 3 / 4);  // bytes for the three other ranks of the group
    EXPECT_EQ(pieces[1], bytes / 4);
    EXPECT_EQ(pieces[2], bytes / 8);
    EXPECT_EQ(pieces[3], bytes);
    for (const size_t stage : {0U, 1U, 3U}) EXPECT_EQ(pieces[stage], copies[stage]);
    EXPECT_EQ(copies[2], 2 * pieces[2]);  // the step reads from two groups
  }
}

}  // namespace
}  // namespace bps
