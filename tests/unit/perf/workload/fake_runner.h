// FakeRunner: a Runner for ranks that are threads of one process. FakeRunner computes the sums without bps. A test can
// make FakeRunner give wrong results.
#pragma once
#include <algorithm>
#include <barrier>
#include <vector>

#include "cpu_reduce/reduce.h"
#include "perf/app/runner.h"

namespace bps::perf {

struct Queued {
  const void* send;
  void* recv;
  size_t count;
  bpsDataType_t type;
  bpsRedOp_t op;
};

// The data that the ranks share. All ranks wait at a barrier before and after they read the data.
struct World {
  explicit World(int n) : ranks(n), barrier(n), queues(static_cast<size_t>(n)), values(static_cast<size_t>(n)) {}
  int ranks;
  std::barrier<> barrier;
  std::vector<std::vector<Queued>> queues;
  std::vector<double> values;
  int errsFrom = 1 << 30;  // ranks with this or a higher number get wrong results
};

class FakeRunner : public Runner {
 public:
  FakeRunner(World& world, int rank) : world_(world), rank_(rank) {}
  int rank() const override { return rank_; }
  int ranks() const override { return world_.ranks; }
  Status allReduce(const void* send, void* recv, size_t count, bpsDataType_t type, bpsRedOp_t op) override {
    world_.queues[static_cast<size_t>(rank_)].push_back({send, recv, count, type, op});
    return {};
  }
  Status initParameter(uint64_t, void*, size_t, bpsDataType_t) override { return {}; }
  Status pushPull(uint64_t, const void*, void*, size_t, bpsDataType_t) override { return {}; }
  Status pull(uint64_t, void*, size_t, bpsDataType_t) override { return {}; }
  Status pushes(uint64_t, uint64_t*) override { return {}; }
  Status groupStart() override { return {}; }
  Status groupEnd() override { return {}; }
  Status synchronize() override {
    world_.barrier.arrive_and_wait();
    auto& mine = world_.queues[static_cast<size_t>(rank_)];
    for (size_t i = 0; i < mine.size(); ++i) reduceOne(i);
    world_.barrier.arrive_and_wait();
    mine.clear();
    world_.barrier.arrive_and_wait();
    return {};
  }
  Result<double> maxOverRanks(double value) override {
    world_.barrier.arrive_and_wait();
    world_.values[static_cast<size_t>(rank_)] = value;
    world_.barrier.arrive_and_wait();
    return *std::max_element(world_.values.begin(), world_.values.end());
  }
  Result<bool> equalOnAllRanks(uint64_t value) override {
    const auto low = static_cast<double>(value & 0xffffffff);
    const auto high = static_cast<double>(value >> 32);
    bool equal = true;
    for (double part : {low, -low, high, -high}) equal = maxOverRanks(part).value() == part && equal;
    return maxOverRanks(equal ? 0 : 1).value() == 0;
  }

 private:
  void reduceOne(size_t index) {
    std::vector<const void*> sources;
    for (const auto& queue : world_.queues) sources.push_back(queue.at(index).send);
    const Queued& call = world_.queues[static_cast<size_t>(rank_)][index];
    ReduceArgs args{.dst = call.recv, .sources = sources, .count = call.count};
    args.type = static_cast<DataType>(call.type);
    args.op = call.op == bpsAvg ? FoldOp::kSum : static_cast<FoldOp>(call.op);
    if (call.op == bpsAvg) args.divisor = static_cast<uint64_t>(world_.ranks);
    reduce(args);
    if (rank_ >= world_.errsFrom && call.count > 0) *static_cast<uint8_t*>(call.recv) ^= 0x40;
  }
  World& world_;
  int rank_;
};

}  // namespace bps::perf
