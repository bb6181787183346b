#include "topo/plan/program.h"

#include <algorithm>

#include "topo/plan/cpu_assisted_steps.h"
#include "topo/plan/step_builder.h"

namespace bps {
namespace {

bool travelsAlongRing(const LocalPlan& plan) {
  return plan.strategy == Strategy::kFlatRing || (plan.strategy != Strategy::kCpuAssisted && plan.alongRing);
}

size_t stagesOf(const LocalPlan& plan) {
  if (travelsAlongRing(plan)) return plan.placement.ranks.size() + 1;
  switch (plan.strategy) {
    case Strategy::kCpuAssisted:
      return cpuAssistedStages(plan);
    case Strategy::kRooted:
      return plan.staged ? 4 : 3;
    default:
      return 3;
  }
}

// The most bytes of other ranks' contributions that a rank reads if every rank adds up the whole
// chunk for itself. Reading up to this many bytes takes less time than another wait for the other
// ranks.
constexpr uint64_t kMaxRedundantReadBytes = 16U << 10;

// Returns the size of the largest chunk that every rank adds up for itself, or 0 if there is no
// such chunk. A result above 0 requires that all buffers are in host memory and that the plan does
// not use the network.
uint64_t maxRedundantBytes(const LocalPlan& plan) {
  const Placement& placement = plan.placement;
  const size_t ranks = placement.ranks.size();
  if (ranks < 2 || plan.network > 0 || travelsAlongRing(plan) || stagesOf(plan) < 3) return 0;
  for (size_t rank = 0; rank < ranks; ++rank)
    if (!inHostMemory(plan, rank)) return 0;
  // The strategy rounds the sum of each group. One pass over all ranks would not reproduce these
  // roundings.
  if (plan.strategy == Strategy::kCpuAssisted && placement.groups.size() > 1 && placement.groups.size() < ranks)
    return 0;
  return kMaxRedundantReadBytes / (ranks - 1);
}

// Every rank adds up all of a small chunk, in the order in which the strategy would add up the
// chunk's parts.
class RedundantReduce final : StepBuilder {
 public:
  using StepBuilder::StepBuilder;
  std::vector<Step> build() && {
    putContribution(whole_);
    copyToHost(0, numa(rank_), whole_);
    std::vector<size_t> order;
    for (const SwitchGroup& group : plan_.placement.groups)
      order.insert(order.end(), group.ranks.begin(), group.ranks.end());
    if (plan_.strategy != Strategy::kCpuAssisted) std::sort(order.begin(), order.end());
    piece(last(), {whole_, sourcesOf(order), Target::kResult, true});
    for (const size_t rank : order)
      copy(last(), {CopyKind::kSum, numa(rank), numa(rank_), whole_.size(), rank == order[0]});
    return std::move(steps_);
  }
};

// Every rank copies its contribution for a part to the part's driver. The driver copies the result
// to all ranks.
class ScatterReduce final : StepBuilder {
 public:
  using StepBuilder::StepBuilder;
  std::vector<Step> build() && {
    for (size_t d = 0; d < parts_.size(); ++d) {
      const size_t owner = plan_.assignments[d].rank;
      if (owner == rank_) {
        piece(1, {parts_[d], allSources(), Target::kSumArea, true});
        copyToHost(1, numa(rank_), parts_[d]);
        copyFromHost(numa(rank_), parts_[d]);
      } else {
        putContribution(parts_[d]);
        addPeerCopy(0, rank_, owner, parts_[d]);
        addPeerCopy(last(), owner, rank_, parts_[d]);
      }
    }
    takeSum();
    return std::move(steps_);
  }
};

// Before the network transfer, all ranks reduce-scatter, and the root gathers the shards. After the
// network transfer, the root scatters the shards, and the ranks all-gather them.
class RootedReduce final : StepBuilder {
 public:
  using StepBuilder::StepBuilder;
  std::vector<Step> build() && {
    for (size_t d = 0; d < parts_.size(); ++d) {
      const size_t root = plan_.assignments[d].rank;
      const std::vector<ByteRange> shards = splitEvenly(parts_[d], unit_, ranks());
      for (size_t owner = 0; owner < ranks(); ++owner) {
        if (owner == rank_) addOwnShard(root, shards[owner]);
        else addPeerShard(root, owner, shards[owner]);
      }
      if (root != rank_) continue;
      copyToHost(last() - 1, numa(rank_), parts_[d]);
      copyFromHost(numa(rank_), parts_[d]);
    }
    takeSum();
    return std::move(steps_);
  }

 private:
  void addOwnShard(size_t root, const ByteRange& shard) {
    const bool stays = root == rank_ || !plan_.staged;  // without staging, the root gathers nothing
    piece(1, {shard, allSources(), stays ? Target::kSumArea : Target::kOwnArea, true});
    if (stays) return;
    addPeerCopy(1, rank_, root, shard);
    addPeerCopy(last(), root, rank_, shard);
  }

  void addPeerShard(size_t root, size_t owner, const ByteRange& shard) {
    putContribution(shard);
    addPeerCopy(0, rank_, owner, shard);
    if (root == rank_ && plan_.staged) piece(2, {shard, {{owner, Source::kPartialSum}}, Target::kSumArea});
    else addPeerCopy(last(), owner, rank_, shard);
  }
};

// Every part travels along the ring to its driver, and each rank on the way adds its contribution.
// The result travels back in the opposite direction, so that both directions of every link carry
// equal traffic.
class RingReduce final : StepBuilder {
 public:
  RingReduce(const LocalProgram& program, std::vector<size_t> distances, size_t rank, uint64_t bytes, uint64_t unit)
      : StepBuilder(program, rank, bytes, unit), distances_(std::move(distances)) {}

  std::vector<Step> build(size_t predecessor, size_t successor) && {
    for (size_t d = 0; d < parts_.size(); ++d) {
      const size_t stage = distances_[d];
      const bool owns = plan_.assignments[d].rank == rank_;
      std::vector<Source> sources = {own()};
      if (stage > 0) sources = {{predecessor, stage == 1 ? predecessor : Source::kPartialSum}, own()};
      piece(stage, {parts_[d], sources, owns ? Target::kSumArea : Target::kOwnArea, owns});
      if (owns) {
        copyToHost(stage, numa(rank_), parts_[d]);
        copyFromHost(numa(rank_), parts_[d]);
      } else {
        addPeerCopy(stage, rank_, successor, parts_[d]);
        addPeerCopy(last(), successor, rank_, parts_[d]);
      }
    }
    takeSum();
    return std::move(steps_);
  }

 private:
  const std::vector<size_t>
      distances_;  // for each assignment, the hops from the rank where the part starts to this rank
};

std::vector<Copy> copiesOf(const LocalProgram& program, uint64_t bytes, uint64_t unit) {
  std::vector<Copy> copies = networkCopies(program.plan(), bytes, unit, program.plan().network);
  for (size_t rank = 0; rank < program.ranks(); ++rank)
    for (const Step& step : program.steps(rank, bytes, unit))
      copies.insert(copies.end(), step.copies.begin(), step.copies.end());
  return copies;
}

}  // namespace

LocalProgram::LocalProgram(LocalPlan plan)
    : plan_(std::move(plan)),
      alongRing_(travelsAlongRing(plan_)),
      stages_(stagesOf(plan_)),
      maxRedundantBytes_(maxRedundantBytes(plan_)),
      predecessors_(ranks()),
      successors_(ranks()),
      positions_(ranks()) {
  const std::vector<size_t>& ring = plan_.ring;
  for (size_t i = 0; i < ring.size(); ++i) {
    positions_[ring[i]] = i;
    successors_[ring[i]] = ring[(i + 1) % ring.size()];
    predecessors_[ring[(i + 1) % ring.size()]] = ring[i];
  }
}

std::vector<Step> LocalProgram::steps(size_t rank, uint64_t bytes, uint64_t unit) const {
  if (isReducedRedundantly(bytes)) return RedundantReduce(*this, rank, bytes, unit).build();
  if (alongRing_) {
    std::vector<size_t> distances;
    for (const NicAssignment& assignment : plan_.assignments)
      distances.push_back((positions_[rank] + ranks() - positions_[assignment.rank] + ranks() - 1) % ranks());
    return RingReduce(*this, std::move(distances), rank, bytes, unit).build(predecessors_[rank], successors_[rank]);
  }
  switch (plan_.strategy) {
    case Strategy::kCpuAssisted:
      return cpuAssistedSteps(*this, rank, bytes, unit);
    case Strategy::kRooted:
      return RootedReduce(*this, rank, bytes, unit).build();
    default:
      return ScatterReduce(*this, rank, bytes, unit).build();
  }
}

std::vector<Copy> networkCopies(const LocalPlan& plan, uint64_t bytes, uint64_t unit, double through) {
  std::vector<Copy> copies;
  const std::vector<ByteRange> parts = rangesOf(cutByAssignment(bytes, unit, plan.assignments));
  for (size_t d = 0; d < parts.size(); ++d) {
    const auto moved = static_cast<uint64_t>(static_cast<double>(parts[d].size()) * through);
    const std::vector<Copy> own = networkCopies(plan, plan.assignments[d], moved);
    copies.insert(copies.end(), own.begin(), own.end());
  }
  return copies;
}

std::vector<Copy> networkCopies(const LocalPlan& plan, const NicAssignment& assignment, uint64_t moved) {
  if (assignment.nic == kNoNode || moved == 0) return {};
  // Network copies use the NUMA node of the driver's staging buffer. With cpu_assisted, they use
  // the NUMA node next to the NIC, where the CPU adds.
  const NodeId numa =
      plan.strategy == Strategy::kCpuAssisted ? assignment.numa : plan.placement.ranks[assignment.rank].numa;
  return {{CopyKind::kNic, numa, assignment.nic, moved}, {CopyKind::kNic, assignment.nic, numa, moved}};
}

std::vector<Copy> copiesOf(const LocalPlan& plan, uint64_t bytes, uint64_t unit) {
  return copiesOf(LocalProgram(plan), bytes, unit);
}

}  // namespace bps
