#include "topo/plan/program.h"

#include <algorithm>
#include <set>

namespace bps {
namespace {

std::vector<Part> partsOf(const std::vector<uint64_t>& offsets) {
  std::vector<Part> parts;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) parts.push_back({offsets[i], offsets[i + 1]});
  return parts;
}

std::vector<Part> evenly(const Part& whole, uint64_t unit, size_t parts) {
  std::vector<uint64_t> offsets = cutByWeight(whole.size(), unit, std::vector<uint64_t>(parts, 1));
  for (uint64_t& offset : offsets) offset += whole.begin;
  return partsOf(offsets);
}

Part overlap(const Part& a, const Part& b) {
  const uint64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

bool travelsAlongRing(const LocalPlan& plan) {
  return plan.strategy == Strategy::kFlatRing || (plan.strategy != Strategy::kCpuAssisted && plan.alongRing);
}

bool inHostMemory(const LocalPlan& plan, size_t rank) {
  return plan.placement.ranks[rank].seat == plan.placement.ranks[rank].numa;
}

// The groups' sums of this part are in place: there is one group, and it has put them where the network takes them.
bool inPlace(const LocalPlan& plan, const NicDuty& duty) {
  return plan.placement.groups.size() == 1 && plan.placement.groups[0].numa == duty.numa;
}

// The stages of cpu_assisted between the first and the last; 0: there is nothing to do.
struct CpuAssistedStages {
  explicit CpuAssistedStages(const LocalPlan& plan) {
    const auto& groups = plan.placement.groups;
    size_t next = 1;
    if (std::any_of(groups.begin(), groups.end(), [](const RankGroup& group) { return group.ranks.size() > 1; }))
      groupSum = next++;
    if (plan.staged &&
        !std::all_of(plan.duties.begin(), plan.duties.end(), [&](const NicDuty& duty) { return inPlace(plan, duty); }))
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

// What all ranks read more together when each adds up all of a chunk, at most: up to here that takes less time than to
// wait for each other once more.
constexpr uint64_t kMostReadByEach = 16U << 10;

// The largest chunk that every rank adds up for itself; 0: none. It is in host memory and stays there.
uint64_t mostForEach(const LocalPlan& plan) {
  const Placement& placement = plan.placement;
  const size_t ranks = placement.ranks.size();
  if (ranks < 2 || plan.network > 0 || travelsAlongRing(plan) || stagesOf(plan) < 3) return 0;
  for (size_t rank = 0; rank < ranks; ++rank)
    if (!inHostMemory(plan, rank)) return 0;
  // Sums of groups are rounded.
  if (plan.strategy == Strategy::kCpuAssisted && placement.groups.size() > 1 && placement.groups.size() < ranks)
    return 0;
  return kMostReadByEach / (ranks - 1);
}

// Writes down the steps of one rank.
class Script {
 public:
  Script(const LocalProgram& program, size_t rank, uint64_t bytes, uint64_t unit)
      : program_(program),
        plan_(program.plan()),
        rank_(rank),
        whole_{0, bytes},
        unit_(unit),
        parts_(partsOf(cutByDuty(bytes, unit, plan_.duties))),
        steps_(program.stages()) {}

 protected:
  using Target = Piece::Target;

  size_t ranks() const { return program_.ranks(); }
  size_t last() const { return steps_.size() - 1; }
  NodeId seat(size_t rank) const { return plan_.placement.ranks[rank].seat; }
  NodeId numa(size_t rank) const { return plan_.placement.ranks[rank].numa; }

  void copy(size_t stage, Copy copy) {
    if (copy.bytes > 0) steps_[stage].copies.push_back(copy);
  }
  void peer(size_t stage, size_t from, size_t to, const Part& part) {
    copy(stage, {CopyKind::kPeer, seat(from), seat(to), part.size()});
  }
  void stageOut(size_t stage, NodeId to, const Part& part) {
    if (plan_.staged) copy(stage, {CopyKind::kStaging, seat(rank_), to, part.size()});
  }
  void stageIn(NodeId from, const Part& part) {
    if (plan_.staged) copy(last(), {CopyKind::kStaging, from, seat(rank_), part.size()});
  }

  // Joined with the piece before where both are one stretch of the same memory.
  void piece(size_t stage, Piece piece) {
    if (piece.part.size() == 0) return;
    std::vector<Piece>& pieces = steps_[stage].pieces;
    if (!pieces.empty() && pieces.back().part.end == piece.part.begin && pieces.back().sources == piece.sources &&
        pieces.back().target == piece.target && pieces.back().completes == piece.completes)
      pieces.back().part.end = piece.part.end;
    else pieces.push_back(std::move(piece));
  }
  void put(const Part& part) { piece(0, {part, {own()}, Target::kOwnArea}); }
  void take() { piece(last(), {whole_, {{Source::kSumArea, Source::kAddedUp}}, Target::kResult}); }

  Source own() const { return {Source::kOwn, rank_}; }
  // Of the contribution of this rank or another.
  Source from(size_t rank) const { return rank == rank_ ? own() : Source{rank, rank}; }
  std::vector<Source> fromEach(const std::vector<size_t>& ranks) const {
    std::vector<Source> sources(ranks.size());
    std::transform(ranks.begin(), ranks.end(), sources.begin(), [this](size_t rank) { return from(rank); });
    return sources;
  }
  std::vector<Source> fromAll() const {
    std::vector<Source> sources;
    for (size_t rank = 0; rank < ranks(); ++rank) sources.push_back(from(rank));
    return sources;
  }

  const LocalProgram& program_;
  const LocalPlan& plan_;
  const size_t rank_;
  const Part whole_;
  const uint64_t unit_;
  const std::vector<Part> parts_;  // by duty
  std::vector<Step> steps_;
};

class CpuAssisted final : Script {
 public:
  CpuAssisted(const LocalProgram& program, size_t rank, uint64_t bytes, uint64_t unit)
      : Script(program, rank, bytes, unit),
        stages_(plan_),
        groups_(plan_.placement.groups),
        group_(groups_[plan_.placement.groupOf[rank]]) {
    for (const RankGroup& group : groups_) shards_.push_back(evenly(whole_, unit, group.ranks.size()));
  }

  std::vector<Step> write() && {
    const std::vector<Part>& shards = shards_[plan_.placement.groupOf[rank_]];
    if (group_.ranks.size() == 1) copyOut();
    for (size_t i = 0; i < group_.ranks.size(); ++i) {
      if (group_.ranks[i] == rank_) ownShard(shards[i]);
      else othersShard(group_.ranks[i], shards[i]);
    }
    for (size_t d = 0; d < parts_.size(); ++d)
      if (stages_.cpuSum > 0 && plan_.duties[d].rank == rank_ && !inPlace(plan_, plan_.duties[d])) sum(d);
    take();
    return std::move(steps_);
  }

 private:
  bool alone(const RankGroup& group) const { return group.ranks.size() == 1; }
  // A rank whose contribution is in host memory anyhow adds it from there.
  bool addsItsOwn(const NicDuty& duty, const RankGroup& group) const {
    return alone(group) && group.ranks[0] == duty.rank && inHostMemory(plan_, duty.rank);
  }

  void othersShard(size_t owner, const Part& shard) {
    put(shard);
    peer(0, rank_, owner, shard);
    peer(last(), owner, rank_, shard);
  }

  void ownShard(const Part& shard) {
    for (size_t d = 0; d < parts_.size(); ++d) stageIn(plan_.duties[d].numa, overlap(shard, parts_[d]));
    if (alone(group_)) return;
    stageOut(stages_.groupSum, group_.numa, shard);
    addUp(stages_.groupSum, shard, fromEach(group_.ranks));
  }

  // Of a rank that is alone under its switch there is nothing to add up.
  void copyOut() {
    if (!plan_.staged || stages_.cpuSum == 0) {
      stageOut(0, group_.numa, whole_);
      return addUp(0, whole_, {own()});
    }
    for (size_t d = 0; d < parts_.size(); ++d) {
      if (addsItsOwn(plan_.duties[d], group_)) continue;
      stageOut(0, group_.numa, parts_[d]);
      addUp(0, parts_[d], {own()});
    }
  }

  // To where the next stage finds it.
  void addUp(size_t stage, const Part& shard, const std::vector<Source>& sources) {
    const bool completes = groups_.size() == 1;
    if (!plan_.staged) return piece(stage, {shard, sources, Target::kSumArea, completes});
    for (size_t d = 0; d < parts_.size(); ++d)
      piece(stage, {overlap(shard, parts_[d]), sources,
                    inPlace(plan_, plan_.duties[d]) ? Target::kSumArea : Target::kOwnArea, completes});
  }

  // The CPU at the NIC adds what the groups have put into their memories.
  void sum(size_t d) {
    const NicDuty& duty = plan_.duties[d];
    for (size_t g = 0; g < groups_.size(); ++g)
      copy(stages_.cpuSum, {CopyKind::kSum, groups_[g].numa, duty.numa, parts_[d].size(), g == 0});
    std::set<uint64_t> bounds = {parts_[d].begin, parts_[d].end};
    for (const std::vector<Part>& shards : shards_)
      for (const Part& shard : shards)
        if (shard.begin > parts_[d].begin && shard.begin < parts_[d].end) bounds.insert(shard.begin);
    for (auto begin = bounds.begin(), end = std::next(begin); end != bounds.end(); ++begin, ++end) {
      std::vector<Source> sources;
      for (size_t g = 0; g < groups_.size(); ++g) sources.push_back(sumOf(g, duty, *begin));
      piece(stages_.cpuSum, {{*begin, *end}, sources, Target::kSumArea, groups_.size() > 1});
    }
  }

  // Where the group's sum of the byte at `offset` is.
  Source sumOf(size_t g, const NicDuty& duty, uint64_t offset) const {
    const RankGroup& group = groups_[g];
    if (addsItsOwn(duty, group)) return own();
    size_t i = 0;
    while (shards_[g][i].end <= offset) ++i;
    return {group.ranks[i], alone(group) && groups_.size() > 1 ? group.ranks[i] : Source::kAddedUp};
  }

  const CpuAssistedStages stages_;
  const std::vector<RankGroup>& groups_;
  const RankGroup& group_;
  std::vector<std::vector<Part>> shards_;  // by group and rank in it
};

// All ranks add up all of a small chunk, in the order in which its parts would be added up otherwise.
class ByEach final : Script {
 public:
  using Script::Script;
  std::vector<Step> write() && {
    put(whole_);
    stageOut(0, numa(rank_), whole_);
    std::vector<size_t> order;
    for (const RankGroup& group : plan_.placement.groups)
      order.insert(order.end(), group.ranks.begin(), group.ranks.end());
    if (plan_.strategy != Strategy::kCpuAssisted) std::sort(order.begin(), order.end());
    piece(last(), {whole_, fromEach(order), Target::kResult, true});
    for (const size_t rank : order)
      copy(last(), {CopyKind::kSum, numa(rank), numa(rank_), whole_.size(), rank == order[0]});
    return std::move(steps_);
  }
};

// All send their contribution to the owner of a part; it sends all the result.
class Scatter final : Script {
 public:
  using Script::Script;
  std::vector<Step> write() && {
    for (size_t d = 0; d < parts_.size(); ++d) {
      const size_t owner = plan_.duties[d].rank;
      if (owner == rank_) {
        piece(1, {parts_[d], fromAll(), Target::kSumArea, true});
        stageOut(1, numa(rank_), parts_[d]);
        stageIn(numa(rank_), parts_[d]);
      } else {
        put(parts_[d]);
        peer(0, rank_, owner, parts_[d]);
        peer(last(), owner, rank_, parts_[d]);
      }
    }
    take();
    return std::move(steps_);
  }
};

// Reduce-scatter over all, gather at the root; scatter, all-gather among those who have not got it from the root.
class Rooted final : Script {
 public:
  using Script::Script;
  std::vector<Step> write() && {
    for (size_t d = 0; d < parts_.size(); ++d) {
      const size_t root = plan_.duties[d].rank;
      const std::vector<Part> shards = evenly(parts_[d], unit_, ranks());
      for (size_t owner = 0; owner < ranks(); ++owner) {
        if (owner == rank_) ownShard(root, shards[owner]);
        else othersShard(root, owner, shards[owner]);
      }
      if (root != rank_) continue;
      stageOut(last() - 1, numa(rank_), parts_[d]);
      stageIn(numa(rank_), parts_[d]);
    }
    take();
    return std::move(steps_);
  }

 private:
  void ownShard(size_t root, const Part& shard) {
    const bool stays = root == rank_ || !plan_.staged;  // where nothing is staged, nothing is gathered
    piece(1, {shard, fromAll(), stays ? Target::kSumArea : Target::kOwnArea, true});
    if (stays) return;
    peer(1, rank_, root, shard);
    peer(last(), root, rank_, shard);
  }

  void othersShard(size_t root, size_t owner, const Part& shard) {
    put(shard);
    peer(0, rank_, owner, shard);
    if (root == rank_ && plan_.staged) piece(2, {shard, {{owner, Source::kAddedUp}}, Target::kSumArea});
    else peer(last(), owner, rank_, shard);
  }
};

// Every part along the ring to its owner, being added to at every rank, and the result the same way back, so that both
// directions of every link are used alike.
class AlongRing final : Script {
 public:
  AlongRing(const LocalProgram& program, std::vector<size_t> distances, size_t rank, uint64_t bytes, uint64_t unit)
      : Script(program, rank, bytes, unit), distances_(std::move(distances)) {}

  std::vector<Step> write(size_t predecessor, size_t successor) && {
    for (size_t d = 0; d < parts_.size(); ++d) {
      const size_t stage = distances_[d];
      const bool owns = plan_.duties[d].rank == rank_;
      std::vector<Source> sources = {own()};
      if (stage > 0) sources = {{predecessor, stage == 1 ? predecessor : Source::kAddedUp}, own()};
      piece(stage, {parts_[d], sources, owns ? Target::kSumArea : Target::kOwnArea, owns});
      if (owns) {
        stageOut(stage, numa(rank_), parts_[d]);
        stageIn(numa(rank_), parts_[d]);
      } else {
        peer(stage, rank_, successor, parts_[d]);
        peer(last(), successor, rank_, parts_[d]);
      }
    }
    take();
    return std::move(steps_);
  }

 private:
  const std::vector<size_t> distances_;  // by duty: how far this rank is from where its part sets out
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
      mostForEach_(mostForEach(plan_)),
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
  if (addedUpByEach(bytes)) return ByEach(*this, rank, bytes, unit).write();
  if (alongRing_) {
    std::vector<size_t> distances;
    for (const NicDuty& duty : plan_.duties)
      distances.push_back((positions_[rank] + ranks() - positions_[duty.rank] + ranks() - 1) % ranks());
    return AlongRing(*this, std::move(distances), rank, bytes, unit).write(predecessors_[rank], successors_[rank]);
  }
  switch (plan_.strategy) {
    case Strategy::kCpuAssisted:
      return CpuAssisted(*this, rank, bytes, unit).write();
    case Strategy::kRooted:
      return Rooted(*this, rank, bytes, unit).write();
    default:
      return Scatter(*this, rank, bytes, unit).write();
  }
}

std::vector<Copy> networkCopies(const LocalPlan& plan, uint64_t bytes, uint64_t unit, double through) {
  std::vector<Copy> copies;
  const std::vector<Part> parts = partsOf(cutByDuty(bytes, unit, plan.duties));
  for (size_t d = 0; d < parts.size(); ++d) {
    const auto moved = static_cast<uint64_t>(static_cast<double>(parts[d].size()) * through);
    const std::vector<Copy> own = networkCopies(plan, plan.duties[d], moved);
    copies.insert(copies.end(), own.begin(), own.end());
  }
  return copies;
}

std::vector<Copy> networkCopies(const LocalPlan& plan, const NicDuty& duty, uint64_t moved) {
  if (duty.nic == kNoNode || moved == 0) return {};
  // Where the owner's staging buffer is; cpu_assisted adds up at the NIC.
  const NodeId numa = plan.strategy == Strategy::kCpuAssisted ? duty.numa : plan.placement.ranks[duty.rank].numa;
  return {{CopyKind::kNic, numa, duty.nic, moved}, {CopyKind::kNic, duty.nic, numa, moved}};
}

std::vector<Copy> copiesOf(const LocalPlan& plan, uint64_t bytes, uint64_t unit) {
  return copiesOf(LocalProgram(plan), bytes, unit);
}

std::vector<Copy> bruteForceCopiesOf(const LocalPlan& plan, uint64_t bytes, uint64_t unit) {
  LocalPlan alone = plan;
  alone.strategy = Strategy::kCpuAssisted;
  alone.placement.groups.clear();
  for (size_t rank = 0; rank < plan.placement.ranks.size(); ++rank) {
    const RankPlace& place = plan.placement.ranks[rank];
    alone.placement.groups.push_back({place.seat, place.numa, {rank}});
    alone.placement.groupOf[rank] = rank;
  }
  return copiesOf(LocalProgram(std::move(alone)), bytes, unit);
}

}  // namespace bps
