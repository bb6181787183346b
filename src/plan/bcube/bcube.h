// Bcube: the schedule of an all-reduce on a BCube(n, k), after the paper on BML ("BML: A High-performance, Low-cost
// Gradient Synchronization Algorithm for DML Training"). All functions are pure.
//
// BCube(n, k) has n^k machines. The address of a machine has k digits in base n, digit 0 first. A switch of level i
// joins the n machines whose addresses differ in digit i only. Every machine has k NICs, one per level, and reaches
// only its (n - 1) neighbours of each level. If n is 2, the machines form a hypercube and may be joined directly.
//
// A call is divided among k threads, which use all levels at the same time: in step w, thread e uses level
// (e + w) mod k. The part of a thread is cut into blocks, and a block into n^k cells, one per machine, which owns it.
// The cells of a block are in the order of the digits of their owners, with the digit of the thread's first level as
// the most significant one. So all cells whose owners agree in the levels of the first steps are contiguous.
//
// Aggregation, steps 0 to k - 1: before step w, a machine has partial sums of the cells whose owners agree with the
// machine in the levels of the steps before. It sends to each neighbour of the step's level those of them whose owners
// also agree with the neighbour in this level, and adds what the n - 1 neighbours send to its own, in the order of the
// digits. After the last step, every machine has the sum of its own cell. Distribution, steps k - 1 to 0: a machine
// sends all sums that it has to the neighbours of the step's level.
//
// So each of the k links of a machine carries 2 (N - 1) / (k N) of the bytes of a call each way, where N = n^k.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/plan/cutter.h"

namespace bps {

class Bcube {
 public:
  static constexpr size_t kMaxMachines = 4096, kMaxLevels = 8;

  Bcube() = default;
  // Fails unless n >= 2, 1 <= k <= kMaxLevels and n^k <= kMaxMachines.
  static Result<Bcube> create(size_t n, size_t k);

  size_t n() const { return n_; }
  size_t k() const { return k_; }
  size_t machines() const { return machines_; }
  std::string text() const;  // "BCube(3,2)"

  // Addresses are numbers below machines(): digit i counts n^i.
  size_t digit(size_t address, size_t level) const { return address / power(level) % n_; }
  // The machine whose digit of this level is `digit`, and whose other digits are those of `address`.
  size_t neighbour(size_t address, size_t level, size_t digit) const;
  // "021": digit 0 first. Digits above 9 are separated: "3.12.0" if n > 10.
  std::string addressText(size_t address) const;
  Result<size_t> parseAddress(std::string_view text) const;

  size_t levelOf(size_t thread, size_t step) const { return (thread + step) % k_; }
  // The cells of a block of the thread whose owners agree with `address` in the levels of the first `steps` steps.
  struct Cells {
    size_t first = 0, count = 0;
  };
  Cells cells(size_t thread, size_t address, size_t steps) const;
  // The elements of these cells in a block of `count` elements.
  ChunkRange elements(const Cells& cells, size_t count) const;

  // The time of an all-reduce, in units of the time that one link needs for all bytes of the call.
  double time() const;

 private:
  Bcube(size_t n, size_t k, size_t machines) : n_(n), k_(k), machines_(machines) {}
  size_t power(size_t exponent) const;

  size_t n_ = 0, k_ = 0, machines_ = 0;
};

// One block of a call: a range of the buffer that a thread carries.
struct BcubeBlock {
  size_t thread = 0;
  ChunkRange range;
};

struct BcubeLimits {
  size_t maxBlockBytes = constants::kMaxBcubeBlock;  // upper bound for every block; at least a quantum
  size_t quantumBytes = constants::kQuantumBytes;    // every block except the last is a multiple of it
};

// The blocks in flight. k blocks keep all links busy if every slice arrives as soon as it can. There are three times as
// many, because slices arrive late now and then, and more of them if they are small. The bytes in flight are limited,
// because they wait in the queues of the switches, which drop packets if they are full.
constexpr size_t bcubeWindow(size_t k) { return 4 * k * k; }
constexpr bool fitsBcubeWindow(size_t k, size_t blocks, size_t bytes) {
  return blocks < 3 * k || (blocks < bcubeWindow(k) && bytes < constants::kBcubeBytesInFlight);
}

// Cuts a call into blocks, in the order in which all machines submit them: the blocks of the threads take turns. A call
// of zero elements has one empty block. Which thread carries an element follows from the size of the call and the
// quantum, not from the size of the blocks, so that the order of the additions does not depend on maxBlockBytes.
//
// The links are idle while the last blocks finish, for about as long as a link needs for a block. So the part of a
// thread is cut into about kBcubeBlocks blocks, unless they become smaller than kMinBcubeBlock.
std::vector<BcubeBlock> cutForBcube(const Bcube& shape, size_t count, size_t elementBytes, const BcubeLimits& limits);

}  // namespace bps
