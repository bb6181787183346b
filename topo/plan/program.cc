#include "topo/plan/program.h"

#include <algorithm>
#include <set>

namespace bps {
namespace {

std::vector<ByteRange> rangesOf(const std::vector<uint64_t>& offsets) {
  std::vector<ByteRange> parts;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) parts.push_back({offsets[i], offsets[i + 1]});
  return parts;
}

std::vector<ByteRange> splitEvenly(const ByteRange& whole, uint64_t unit, size_t parts) {
  std::vector<uint64_t> offsets = cutByWeight(whole.size(), unit, std::vector<uint64_t>(parts, 1));
  for (uint64_t& offset : offsets) offset += whole.begin;
  return rangesOf(offsets);
}

ByteRange overlap(const ByteRange& a, const ByteRange& b) {
  const uint64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

bool travelsAlongRing(const LocalPlan& plan) {
  return plan.strategy == Strategy::kFlatRing || (plan.strategy != Strategy::kCpuAssisted && plan.alongRing);
}

bool inHostMemory(const LocalPlan& plan, size_t rank) {
  return plan.placement.ranks[rank].location == plan.placement.ranks[rank].numa;
}

// True if the CPU has nothing to add for this part: the only group has put its sum where the network reads it.
bool groupSumIsInPlace(const LocalPlan& plan, const NicAssignment& assignment) {
  return plan.placement.groups.size() == 1 && plan.placement.groups[0].numa == assignment.numa;
}

// The stages of cpu_assisted between the first and the last. 0: the stage does not exist.
struct CpuAssistedStages {
  explicit CpuAssistedStages(const LocalPlan& plan) {
    const auto& groups = plan.placement.groups;
    size_t next = 1;
    if (std::any_of(groups.begin(), groups.end(), [](const SwitchGroup& group) { return group.ranks.size() > 1; }))
      groupSum = next++;
    if (plan.staged &&
        !std::all_of(plan.assignments.begin(), plan.assignments.end(),
                     [&](const NicAssignment& assignment) { return groupSumIsInPlace(plan, assignment); }))
      cpuSum = next++;
    count = next + 1;
  }
  size_t groupSum = 0, cpuSum = 0, count = 0;
};

size_t stagesOf(const LocalPlan& plan) {
  if (travelsAlongRing(plan)) return plan.placement.ranks.size() + 1;
  switch (plan.strategy) {
    case Strategy::kCpuAssisted:
      return CpuAssistedStages(plan).count;
    case Strategy::kRooted:
      return plan.staged ? 4 : 3;
    default:
      return 3;
  }
}

// Limit on the bytes of other ranks' contributions that a rank reads when every rank adds up the whole chunk. Up to
// this limit the reads take less time than another wait for the other ranks.
constexpr uint64_t kMaxRedundantReadBytes = 16U << 10;

// The largest chunk that every rank adds up redundantly; 0: none. Requires that all buffers are in host memory and that
// the plan does not use the network.
uint64_t maxRedundantBytes(const LocalPlan& plan) {
  const Placement& placement = plan.placement;
  const size_t ranks = placement.ranks.size();
  if (ranks < 2 || plan.network > 0 || travelsAlongRing(plan) || stagesOf(plan) < 3) return 0;
  for (size_t rank = 0; rank < ranks; ++rank)
    if (!inHostMemory(plan, rank)) return 0;
  // The sums of groups are rounded, which one pass over all ranks would not reproduce.
  if (plan.strategy == Strategy::kCpuAssisted && placement.groups.size() > 1 && placement.groups.size() < ranks)
    return 0;
  return kMaxRedundantReadBytes / (ranks - 1);
}

// Builds the steps of one rank. A class per strategy derives from it.
class StepBuilder {
 public:
  StepBuilder(const LocalProgram& program, size_t rank, uint64_t bytes, uint64_t unit)
      : program_(program),
        plan_(program.plan()),
        rank_(rank),
        whole_{0, bytes},
        unit_(unit),
        parts_(rangesOf(cutByAssignment(bytes, unit, plan_.assignments))),
        steps_(program.stages()) {}

 protected:
  using Target = Piece::Target;

  size_t ranks() const { return program_.ranks(); }
  size_t last() const { return steps_.size() - 1; }
  NodeId location(size_t rank) const { return plan_.placement.ranks[rank].location; }
  NodeId numa(size_t rank) const { return plan_.placement.ranks[rank].numa; }

  void copy(size_t stage, Copy copy) {
    if (copy.bytes > 0) steps_[stage].copies.push_back(copy);
  }
  void addPeerCopy(size_t stage, size_t from, size_t to, const ByteRange& part) {
    copy(stage, {CopyKind::kPeer, location(from), location(to), part.size()});
  }
  void copyToHost(size_t stage, NodeId to, const ByteRange& part) {
    if (plan_.staged) copy(stage, {CopyKind::kStaging, location(rank_), to, part.size()});
  }
  void copyFromHost(NodeId from, const ByteRange& part) {
    if (plan_.staged) copy(last(), {CopyKind::kStaging, from, location(rank_), part.size()});
  }

  // Adds a piece, or extends the previous piece if the two are contiguous and otherwise equal.
  void piece(size_t stage, Piece piece) {
    if (piece.part.size() == 0) return;
    std::vector<Piece>& pieces = steps_[stage].pieces;
    if (!pieces.empty() && pieces.back().part.end == piece.part.begin && pieces.back().sources == piece.sources &&
        pieces.back().target == piece.target && pieces.back().completes == piece.completes)
      pieces.back().part.end = piece.part.end;
    else pieces.push_back(std::move(piece));
  }
  void putContribution(const ByteRange& part) { piece(0, {part, {own()}, Target::kOwnArea}); }
  void takeSum() { piece(last(), {whole_, {{Source::kSumArea, Source::kPartialSum}}, Target::kResult}); }

  Source own() const { return {Source::kOwn, rank_}; }
  // The contribution of `rank`, which may be this rank.
  Source from(size_t rank) const { return rank == rank_ ? own() : Source{rank, rank}; }
  std::vector<Source> sourcesOf(const std::vector<size_t>& ranks) const {
    std::vector<Source> sources(ranks.size());
    std::transform(ranks.begin(), ranks.end(), sources.begin(), [this](size_t rank) { return from(rank); });
    return sources;
  }
  std::vector<Source> allSources() const {
    std::vector<Source> sources;
    for (size_t rank = 0; rank < ranks(); ++rank) sources.push_back(from(rank));
    return sources;
  }

  const LocalProgram& program_;
  const LocalPlan& plan_;
  const size_t rank_;
  const ByteRange whole_;
  const uint64_t unit_;
  const std::vector<ByteRange> parts_;  // by assignment
  std::vector<Step> steps_;
};

class CpuAssistedReduce final : StepBuilder {
 public:
  CpuAssistedReduce(const LocalProgram& program, size_t rank, uint64_t bytes, uint64_t unit)
      : StepBuilder(program, rank, bytes, unit),
        stages_(plan_),
        groups_(plan_.placement.groups),
        group_(groups_[plan_.placement.groupOf[rank]]) {
    for (const SwitchGroup& group : groups_) shards_.push_back(splitEvenly(whole_, unit, group.ranks.size()));
  }

  std::vector<Step> build() && {
    const std::vector<ByteRange>& shards = shards_[plan_.placement.groupOf[rank_]];
    if (group_.ranks.size() == 1) copyOut();
    for (size_t i = 0; i < group_.ranks.size(); ++i) {
      if (group_.ranks[i] == rank_) addOwnShard(shards[i]);
      else addPeerShard(group_.ranks[i], shards[i]);
    }
    for (size_t d = 0; d < parts_.size(); ++d)
      if (stages_.cpuSum > 0 && plan_.assignments[d].rank == rank_ && !groupSumIsInPlace(plan_, plan_.assignments[d]))
        sum(d);
    takeSum();
    return std::move(steps_);
  }

 private:
  bool alone(const SwitchGroup& group) const { return group.ranks.size() == 1; }
  // True if the adding rank is the group's only rank and its buffer is in host memory: it adds directly from there.
  bool addsFromOwnBuffer(const NicAssignment& assignment, const SwitchGroup& group) const {
    return alone(group) && group.ranks[0] == assignment.rank && inHostMemory(plan_, assignment.rank);
  }

  void addPeerShard(size_t owner, const ByteRange& shard) {
    putContribution(shard);
    addPeerCopy(0, rank_, owner, shard);
    addPeerCopy(last(), owner, rank_, shard);
  }

  void addOwnShard(const ByteRange& shard) {
    for (size_t d = 0; d < parts_.size(); ++d) copyFromHost(plan_.assignments[d].numa, overlap(shard, parts_[d]));
    if (alone(group_)) return;
    copyToHost(stages_.groupSum, group_.numa, shard);
    reduceShard(stages_.groupSum, shard, sourcesOf(group_.ranks));
  }

  // A rank that is alone in its group has nothing to add: it copies its contribution to host memory.
  void copyOut() {
    if (!plan_.staged || stages_.cpuSum == 0) {
      copyToHost(0, group_.numa, whole_);
      return reduceShard(0, whole_, {own()});
    }
    for (size_t d = 0; d < parts_.size(); ++d) {
      if (addsFromOwnBuffer(plan_.assignments[d], group_)) continue;
      copyToHost(0, group_.numa, parts_[d]);
      reduceShard(0, parts_[d], {own()});
    }
  }

  // Adds the group's contributions to the shard and stores the sum where the next stage reads it.
  void reduceShard(size_t stage, const ByteRange& shard, const std::vector<Source>& sources) {
    const bool completes = groups_.size() == 1;
    if (!plan_.staged) return piece(stage, {shard, sources, Target::kSumArea, completes});
    for (size_t d = 0; d < parts_.size(); ++d)
      piece(stage, {overlap(shard, parts_[d]), sources,
                    groupSumIsInPlace(plan_, plan_.assignments[d]) ? Target::kSumArea : Target::kOwnArea, completes});
  }

  // The CPU next to the NIC adds the groups' sums from their memories.
  void sum(size_t d) {
    const NicAssignment& assignment = plan_.assignments[d];
    for (size_t g = 0; g < groups_.size(); ++g)
      copy(stages_.cpuSum, {CopyKind::kSum, groups_[g].numa, assignment.numa, parts_[d].size(), g == 0});
    std::set<uint64_t> bounds = {parts_[d].begin, parts_[d].end};
    for (const std::vector<ByteRange>& shards : shards_)
      for (const ByteRange& shard : shards)
        if (shard.begin > parts_[d].begin && shard.begin < parts_[d].end) bounds.insert(shard.begin);
    for (auto begin = bounds.begin(), end = std::next(begin); end != bounds.end(); ++begin, ++end) {
      std::vector<Source> sources;
      for (size_t g = 0; g < groups_.size(); ++g) sources.push_back(groupSumSource(g, assignment, *begin));
      piece(stages_.cpuSum, {{*begin, *end}, sources, Target::kSumArea, groups_.size() > 1});
    }
  }

  // The location of the group's sum for the byte at `offset`.
  Source groupSumSource(size_t g, const NicAssignment& assignment, uint64_t offset) const {
    const SwitchGroup& group = groups_[g];
    if (addsFromOwnBuffer(assignment, group)) return own();
    size_t i = 0;
    while (shards_[g][i].end <= offset) ++i;
    return {group.ranks[i], alone(group) && groups_.size() > 1 ? group.ranks[i] : Source::kPartialSum};
  }

  const CpuAssistedStages stages_;
  const std::vector<SwitchGroup>& groups_;
  const SwitchGroup& group_;
  std::vector<std::vector<ByteRange>> shards_;  // by group and rank in it
};

// Every rank adds up the whole of a small chunk, in the order in which the strategy would add up its parts.
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

// All ranks send their contribution of a part to the part's owner. The owner sends the result to all ranks.
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

// Before the network: reduce-scatter over all ranks, then gather at the root. After it: the root scatters the shards,
// then the ranks all-gather them.
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
    const bool stays = root == rank_ || !plan_.staged;  // without staging nothing is gathered at the root
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

// Every part travels along the ring to its owner and each rank adds its contribution. The result travels the same way
// back, so that both directions of every link carry equal traffic.
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
  const std::vector<size_t> distances_;  // by assignment: hops from the rank where the part starts to this rank
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
      return CpuAssistedReduce(*this, rank, bytes, unit).build();
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
  // The NUMA node of the owner's staging buffer. cpu_assisted adds up next to the NIC.
  const NodeId numa =
      plan.strategy == Strategy::kCpuAssisted ? assignment.numa : plan.placement.ranks[assignment.rank].numa;
  return {{CopyKind::kNic, numa, assignment.nic, moved}, {CopyKind::kNic, assignment.nic, numa, moved}};
}

std::vector<Copy> copiesOf(const LocalPlan& plan, uint64_t bytes, uint64_t unit) {
  return copiesOf(LocalProgram(plan), bytes, unit);
}

std::vector<Copy> bruteForceCopies(const LocalPlan& plan, uint64_t bytes, uint64_t unit) {
  LocalPlan alone = plan;
  alone.strategy = Strategy::kCpuAssisted;
  alone.placement.groups.clear();
  for (size_t rank = 0; rank < plan.placement.ranks.size(); ++rank) {
    const RankPlacement& place = plan.placement.ranks[rank];
    alone.placement.groups.push_back({place.location, place.numa, {rank}});
    alone.placement.groupOf[rank] = rank;
  }
  return copiesOf(LocalProgram(std::move(alone)), bytes, unit);
}

}  // namespace bps
