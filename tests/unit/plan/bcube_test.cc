#include "src/plan/bcube/bcube.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <set>

namespace bps {
namespace {

Bcube bcube(size_t n, size_t k) { return Bcube::create(n, k).value(); }

std::vector<Bcube> shapes() {
  return {bcube(2, 1), bcube(2, 2), bcube(3, 2), bcube(4, 2), bcube(2, 3), bcube(3, 3), bcube(2, 4), bcube(8, 2)};
}

using Digits = std::vector<size_t>;

Digits digitsOf(const Bcube& shape, size_t address) {
  Digits digits;
  for (size_t level = 0; level < shape.k(); ++level, address /= shape.n()) digits.push_back(address % shape.n());
  return digits;
}

// A simulation after the paper, which knows nothing of cells: a piece has a thread and the digits of its owner, and
// every machine holds a value for each piece. transfer() returns which pieces a machine sends to a neighbour.
class Simulation {
 public:
  explicit Simulation(const Bcube& shape) : n_(shape.n()), k_(shape.k()) {
    for (size_t address = 0; address < shape.machines(); ++address) machines_.push_back(digitsOf(shape, address));
    for (size_t m = 0; m < machines_.size(); ++m)
      for (size_t thread = 0; thread < k_; ++thread)
        for (size_t owner = 0; owner < machines_.size(); ++owner) value_[m][{thread, owner}] = uint64_t{1} << (m % 60);
  }

  // True if the owner has the machine's digits in the levels of the thread's first `steps` steps.
  bool agrees(size_t thread, const Digits& owner, const Digits& machine, size_t steps) const {
    for (size_t step = 0; step < steps; ++step)
      if (owner[(thread + step) % k_] != machine[(thread + step) % k_]) return false;
    return true;
  }

  // Makes all steps. Returns the pieces that each machine sends on each level in each step.
  std::vector<std::map<std::pair<size_t, size_t>, size_t>> run() {
    std::vector<std::map<std::pair<size_t, size_t>, size_t>> sent;
    for (size_t stage = 0; stage < 2 * k_; ++stage) {
      const bool aggregates = stage < k_;
      const size_t step = aggregates ? stage : 2 * k_ - 1 - stage;
      auto next = value_;
      auto& load = sent.emplace_back();
      for (size_t thread = 0; thread < k_; ++thread)
        for (size_t from = 0; from < machines_.size(); ++from)
          for (size_t to = 0; to < machines_.size(); ++to) {
            const size_t level = (thread + step) % k_;
            if (!areNeighbours(from, to, level)) continue;
            for (size_t owner = 0; owner < machines_.size(); ++owner) {
              const size_t reference = aggregates ? to : from;
              if (!agrees(thread, machines_[owner], machines_[reference], step + 1)) continue;
              ++load[{from, level}];
              uint64_t& target = next[to][{thread, owner}];
              target = aggregates ? target + value_[from][{thread, owner}] : value_[from][{thread, owner}];
            }
          }
      value_ = std::move(next);
    }
    return sent;
  }

  bool allHaveTheSum() const {
    uint64_t sum = 0;
    for (size_t m = 0; m < machines_.size(); ++m) sum += uint64_t{1} << (m % 60);
    for (const auto& [machine, pieces] : value_)
      for (const auto& [piece, value] : pieces)
        if (value != sum) return false;
    return true;
  }

 private:
  bool areNeighbours(size_t a, size_t b, size_t level) const {
    for (size_t i = 0; i < k_; ++i)
      if ((machines_[a][i] == machines_[b][i]) == (i == level)) return false;
    return true;
  }

  size_t n_, k_;
  std::vector<Digits> machines_;
  std::map<size_t, std::map<std::pair<size_t, size_t>, uint64_t>> value_;  // by machine, thread and owner
};

TEST(BcubeTest, TheScheduleOfThePaperAddsUpAndTakesTheTimeOfTheFormula) {
  for (const Bcube& shape : shapes()) {
    Simulation simulation(shape);
    size_t steps = 0;
    for (const auto& load : simulation.run()) {
      // All links carry the same number of pieces in a step, so that the step has no idle link.
      ASSERT_EQ(load.size(), shape.machines() * shape.k()) << shape.text();
      for (const auto& [link, pieces] : load) ASSERT_EQ(pieces, load.begin()->second) << shape.text();
      steps += load.begin()->second;
    }
    EXPECT_TRUE(simulation.allHaveTheSum()) << shape.text();
    const double pieces = static_cast<double>(shape.k() * shape.machines());
    EXPECT_DOUBLE_EQ(static_cast<double>(steps) / pieces, shape.time()) << shape.text();
  }
}

// The cells of plan/bcube/bcube.h are the pieces of the simulation, in an order in which each transfer is contiguous.
TEST(BcubeTest, CellsAreThePiecesOfTheSimulation) {
  for (const Bcube& shape : shapes()) {
    const Simulation simulation(shape);
    for (size_t thread = 0; thread < shape.k(); ++thread) {
      std::vector<size_t> ownerOf(shape.machines(), shape.machines());
      for (size_t owner = 0; owner < shape.machines(); ++owner) {
        const Bcube::Cells own = shape.cells(thread, owner, shape.k());
        ASSERT_EQ(own.count, 1U);
        ASSERT_EQ(std::exchange(ownerOf[own.first], owner), shape.machines()) << "two owners of a cell";
      }
      for (size_t machine = 0; machine < shape.machines(); ++machine)
        for (size_t steps = 0; steps <= shape.k(); ++steps) {
          const Bcube::Cells cells = shape.cells(thread, machine, steps);
          for (size_t cell = 0; cell < shape.machines(); ++cell)
            ASSERT_EQ(cell >= cells.first && cell < cells.first + cells.count,
                      simulation.agrees(thread, digitsOf(shape, ownerOf[cell]), digitsOf(shape, machine), steps));
        }
    }
  }
}

TEST(BcubeTest, CellsDivideEveryBlock) {
  const Bcube shape = bcube(3, 2);
  for (const size_t count : {0UL, 1UL, 8UL, 9UL, 1000003UL}) {
    size_t end = 0;
    for (size_t cell = 0; cell < shape.machines(); ++cell) {
      const ChunkRange range = shape.elements({cell, 1}, count);
      EXPECT_EQ(range.offset, end);
      EXPECT_LE(range.count, count / shape.machines() + 1);
      end += range.count;
    }
    EXPECT_EQ(end, count);
  }
}

// A call on all machines of a BCube, whose steps are those of cutForBcube() and cells(), as a transport makes them.
class Call {
 public:
  // By machine and level.
  using Load = std::map<std::pair<size_t, size_t>, size_t>;

  Call(const Bcube& shape, size_t count, size_t maxBlockBytes) : shape_(shape), count_(count) {
    BcubeLimits limits;
    limits.maxBlockBytes = maxBlockBytes;
    blocks_ = cutForBcube(shape, count, sizeof(uint32_t), limits);
    for (size_t machine = 0; machine < shape.machines(); ++machine) {
      data_.emplace_back(count);
      for (size_t i = 0; i < count; ++i) data_.back()[i] = input(machine, i);
    }
  }

  // Makes all steps. Returns the elements that each machine sends on each level in each step.
  std::vector<Load> run() {
    std::vector<Load> sent;
    for (size_t stage = 0; stage < 2 * shape_.k(); ++stage) sent.push_back(runStep(stage));
    return sent;
  }

  size_t blocks() const { return blocks_.size(); }
  // The number of elements, on all machines, that are not the sum of all inputs.
  size_t wrong() const {
    size_t wrong = 0;
    for (size_t i = 0; i < count_; ++i) {
      uint32_t sum = 0;
      for (size_t machine = 0; machine < shape_.machines(); ++machine) sum += input(machine, i);
      for (const std::vector<uint32_t>& machine : data_) wrong += machine[i] != sum;
    }
    return wrong;
  }

 private:
  static uint32_t input(size_t machine, size_t i) {
    constexpr uint32_t kMix = 2654435761;
    return static_cast<uint32_t>((machine + 1) * kMix + i * i);
  }

  Load runStep(size_t stage) {
    const bool aggregates = stage < shape_.k();
    const size_t step = aggregates ? stage : 2 * shape_.k() - 1 - stage;
    const std::vector<std::vector<uint32_t>> before = data_;
    std::map<std::pair<size_t, size_t>, std::set<size_t>> threads;
    Load load;
    for (const BcubeBlock& block : blocks_)
      for (size_t from = 0; from < shape_.machines(); ++from)
        for (size_t digit = 0; digit < shape_.n(); ++digit) {
          const size_t level = shape_.levelOf(block.thread, step), to = shape_.neighbour(from, level, digit);
          if (to == from) continue;
          const ChunkRange range =
              shape_.elements(shape_.cells(block.thread, aggregates ? to : from, step + 1), block.range.count);
          threads[{from, level}].insert(block.thread);
          load[{from, level}] += range.count;
          for (size_t i = block.range.offset + range.offset; i < block.range.offset + range.offset + range.count; ++i)
            data_[to][i] = before[from][i] + (aggregates ? data_[to][i] : 0);
        }
    for (const auto& [link, users] : threads) EXPECT_EQ(users.size(), 1U) << "two threads use a link at the same time";
    return load;
  }

  Bcube shape_;
  size_t count_;
  std::vector<BcubeBlock> blocks_;
  std::vector<std::vector<uint32_t>> data_;
};

TEST(BcubeTest, EveryMachineHasTheSumsAndEveryLinkCarriesItsPart) {
  constexpr size_t kCount = 40009;
  for (const Bcube& shape : shapes()) {
    const auto expected = Simulation(shape).run();
    for (const size_t maxBlockBytes : {size_t{16} << 10, constants::kMaxBcubeBlock}) {
      SCOPED_TRACE(shape.text() + ", blocks of at most " + std::to_string(maxBlockBytes) + " bytes");
      Call call(shape, kCount, maxBlockBytes);
      const std::vector<Call::Load> sent = call.run();
      EXPECT_EQ(call.wrong(), 0U);
      // A range of a block is less than an element longer or shorter than its part, and the part of a thread is less
      // than a quantum longer or shorter than those of the others.
      const double pieces = static_cast<double>(shape.k() * shape.machines());
      const double quantum = static_cast<double>(constants::kQuantumBytes) / sizeof(uint32_t);
      const double rounding = static_cast<double>(call.blocks() * (shape.n() - 1)) + quantum;
      Call::Load total;
      for (size_t stage = 0; stage < sent.size(); ++stage) {
        ASSERT_EQ(sent[stage].size(), shape.machines() * shape.k()) << "a link is idle in a step";
        for (const auto& [link, elements] : sent[stage]) {
          EXPECT_NEAR(static_cast<double>(elements), static_cast<double>(expected[stage].at(link)) * kCount / pieces,
                      rounding);
          total[link] += elements;
        }
      }
      for (const auto& [link, elements] : total)
        EXPECT_NEAR(static_cast<double>(elements), shape.time() * kCount,
                    2 * static_cast<double>(shape.k()) * rounding);
    }
  }
}

TEST(BcubeTest, SmallCallsHaveTheSumsToo) {
  for (const Bcube& shape : shapes())
    for (const size_t count : {0UL, 1UL, 7UL, 100UL}) {
      Call call(shape, count, constants::kMaxBcubeBlock);
      call.run();
      EXPECT_EQ(call.wrong(), 0U) << shape.text() << ", " << count << " elements";
    }
}

std::vector<size_t> threadsOf(const std::vector<BcubeBlock>& blocks, size_t count) {
  std::vector<size_t> threads(count, ~size_t{0});
  for (const BcubeBlock& block : blocks)
    for (size_t i = 0; i < block.range.count; ++i) {
      EXPECT_EQ(threads[block.range.offset + i], ~size_t{0}) << "an element is in two blocks";
      threads[block.range.offset + i] = block.thread;
    }
  return threads;
}

TEST(BcubeTest, TheThreadOfAnElementDoesNotDependOnTheSizeOfTheBlocks) {
  for (const Bcube& shape : {bcube(2, 2), bcube(2, 3), bcube(3, 1)})
    for (const size_t bytes : {1UL, 4UL, 8UL})
      for (const size_t count : {1UL, 17UL, 16384UL, 16385UL, 100000UL}) {
        const std::vector<size_t> threads = threadsOf(cutForBcube(shape, count, bytes, {}), count);
        EXPECT_EQ(std::count(threads.begin(), threads.end(), ~size_t{0}), 0) << "an element is in no block";
        BcubeLimits small;
        small.maxBlockBytes = 4096;
        const std::vector<BcubeBlock> blocks = cutForBcube(shape, count, bytes, small);
        EXPECT_EQ(threadsOf(blocks, count), threads);
        for (const BcubeBlock& block : blocks) {
          EXPECT_GT(block.range.count, 0U);
          EXPECT_LE(block.range.count * bytes, small.maxBlockBytes);
        }
      }
}

TEST(BcubeTest, ThreadsHaveEqualPartsOfALargeCallAndTakeTurns) {
  const Bcube shape = bcube(2, 3);
  const std::vector<BcubeBlock> blocks = cutForBcube(shape, 3U << 20, 4, {});
  std::vector<size_t> elements(shape.k());
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(blocks[i].thread, i % shape.k());
    elements[blocks[i].thread] += blocks[i].range.count;
  }
  EXPECT_EQ(elements, std::vector<size_t>(3, 1U << 20));
}

TEST(BcubeTest, ACallOfZeroElementsHasOneEmptyBlock) {
  const std::vector<BcubeBlock> blocks = cutForBcube(bcube(3, 2), 0, 4, {});
  ASSERT_EQ(blocks.size(), 1U);
  EXPECT_EQ(blocks[0].range.count, 0U);
}

TEST(BcubeTest, AddressesAreReadAsTheyAreWritten) {
  for (const Bcube& shape : {bcube(3, 2), bcube(2, 4), bcube(12, 2)})
    for (size_t address = 0; address < shape.machines(); ++address)
      EXPECT_EQ(shape.parseAddress(shape.addressText(address)).value(), address);
  EXPECT_EQ(bcube(3, 2).addressText(5), "21") << "digit 0 comes first";
  EXPECT_EQ(bcube(12, 2).addressText(15), "3.1");
  for (const char* bad : {"", "0", "000", "03", "x0", "0 ", "-1"})
    EXPECT_FALSE(bcube(3, 2).parseAddress(bad).ok()) << bad;
  for (const char* bad : {"", "3", "3.", "3.12", "3.1.0", "31"})
    EXPECT_FALSE(bcube(12, 2).parseAddress(bad).ok()) << bad;
}

TEST(BcubeTest, RefusesImpossibleShapes) {
  EXPECT_FALSE(Bcube::create(1, 2).ok());
  EXPECT_FALSE(Bcube::create(2, 0).ok());
  EXPECT_FALSE(Bcube::create(2, 9).ok());
  EXPECT_FALSE(Bcube::create(5000, 1).ok());
  EXPECT_FALSE(Bcube::create(65, 2).ok());
}

}  // namespace
}  // namespace bps
