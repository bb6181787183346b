#include "topo/plan/strategy.h"

#include <algorithm>

namespace bps {
namespace {

constexpr size_t kMostSteps = 200000;  // of the search for a ring; far more than real machines need

struct Range {
  uint64_t begin = 0, end = 0;
  uint64_t size() const { return end - begin; }
};

std::vector<Range> rangesOf(const std::vector<uint64_t>& offsets) {
  std::vector<Range> ranges;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) ranges.push_back({offsets[i], offsets[i + 1]});
  return ranges;
}

std::vector<Range> evenly(uint64_t bytes, uint64_t unit, size_t parts) {
  return rangesOf(cutByWeight(bytes, unit, std::vector<uint64_t>(parts, 1)));
}

uint64_t overlap(const Range& a, const Range& b) {
  const uint64_t begin = std::max(a.begin, b.begin), end = std::min(a.end, b.end);
  return begin < end ? end - begin : 0;
}

// Writes down the copies of one all-reduce.
class Script {
 public:
  Script(const LocalPlan& plan, uint64_t bytes, uint64_t unit)
      : plan_(plan), bytes_(bytes), unit_(unit), parts_(rangesOf(cutByDuty(bytes, unit, plan.duties))) {}

  std::vector<Copy> write() && {
    switch (plan_.strategy) {
      case Strategy::kCpuAssisted:
        cpuAssisted(plan_.placement.groups);
        break;
      case Strategy::kScatter:
        forEachDuty(
            [&](size_t owner, const Range& part) { plan_.alongRing ? passOn(owner, part) : exchange(owner, part); });
        break;
      case Strategy::kRooted:
        forEachDuty([&](size_t root, const Range& part) { plan_.alongRing ? passOn(root, part) : viaAll(root, part); });
        break;
      case Strategy::kFlatRing:
        forEachDuty([&](size_t owner, const Range& part) { passOn(owner, part); });
        break;
    }
    return std::move(copies_);
  }

  std::vector<Copy> writeBruteForce() && {
    std::vector<RankGroup> alone;
    for (size_t rank = 0; rank < plan_.placement.ranks.size(); ++rank)
      alone.push_back({seat(rank), plan_.placement.ranks[rank].numa, {rank}});
    cpuAssisted(alone);
    return std::move(copies_);
  }

 private:
  NodeId seat(size_t rank) const { return plan_.placement.ranks[rank].seat; }
  size_t ranks() const { return plan_.placement.ranks.size(); }

  void add(CopyKind kind, NodeId from, NodeId to, uint64_t bytes) {
    if (bytes > 0) copies_.push_back({kind, from, to, bytes});
  }
  void peer(size_t from, size_t to, uint64_t bytes) { add(CopyKind::kPeer, seat(from), seat(to), bytes); }

  void network(const NicDuty& duty, NodeId numa, uint64_t bytes) {
    const auto through = static_cast<uint64_t>(static_cast<double>(bytes) * plan_.network);
    if (duty.nic == kNoNode) return;
    add(CopyKind::kNic, numa, duty.nic, through);
    add(CopyKind::kNic, duty.nic, numa, through);
  }

  void cpuAssisted(const std::vector<RankGroup>& groups) {
    for (const RankGroup& group : groups) {
      const std::vector<Range> shards = evenly(bytes_, unit_, group.ranks.size());
      for (size_t i = 0; i < group.ranks.size(); ++i) underSwitch(group, i, shards[i]);
    }
    if (!plan_.staged) return;
    for (size_t i = 0; i < parts_.size(); ++i) sum(groups, plan_.duties[i], parts_[i].size());
  }

  // Rank i of the group gets its shard from the others, copies it out, and hands the result back to the others.
  void underSwitch(const RankGroup& group, size_t i, const Range& shard) {
    const size_t owner = group.ranks[i];
    for (size_t other : group.ranks)
      if (other != owner) peer(other, owner, shard.size());
    if (plan_.staged) {
      add(CopyKind::kStaging, seat(owner), group.numa, shard.size());
      for (size_t d = 0; d < parts_.size(); ++d)
        add(CopyKind::kStaging, plan_.duties[d].numa, seat(owner), overlap(shard, parts_[d]));
    }
    for (size_t other : group.ranks)
      if (other != owner) peer(owner, other, shard.size());
  }

  // The CPU at the NIC adds what the groups have put into their memories.
  void sum(const std::vector<RankGroup>& groups, const NicDuty& duty, uint64_t bytes) {
    if (bytes == 0) return;
    for (size_t g = 0; g < groups.size(); ++g) {
      if (groups.size() == 1 && groups[g].numa == duty.numa) break;  // nothing to add, and it is in place
      copies_.push_back({CopyKind::kSum, groups[g].numa, duty.numa, bytes, g == 0});
    }
    network(duty, duty.numa, bytes);
  }

  // What `combine` does with every part stands around the owner's way through host memory; the order of copies has no
  // meaning here.
  template <class Combine>
  void forEachDuty(const Combine& combine) {
    for (size_t d = 0; d < parts_.size(); ++d) {
      const NicDuty& duty = plan_.duties[d];
      combine(duty.rank, parts_[d]);
      if (!plan_.staged) continue;
      const NodeId numa = plan_.placement.ranks[duty.rank].numa;
      add(CopyKind::kStaging, seat(duty.rank), numa, parts_[d].size());
      network(duty, numa, parts_[d].size());
      add(CopyKind::kStaging, numa, seat(duty.rank), parts_[d].size());
    }
  }

  // All send their contribution to the owner; it sends all the result.
  void exchange(size_t owner, const Range& part) {
    for (size_t other = 0; other < ranks(); ++other) {
      if (other == owner) continue;
      peer(other, owner, part.size());
      peer(owner, other, part.size());
    }
  }

  // Reduce-scatter over all, gather at the root; scatter, all-gather.
  void viaAll(size_t root, const Range& part) {
    const std::vector<Range> shards = evenly(part.size(), unit_, ranks());
    for (size_t rank = 0; rank < ranks(); ++rank) {
      exchange(rank, shards[rank]);
      if (rank == root) continue;
      peer(rank, root, shards[rank].size());
      peer(root, rank, shards[rank].size());
    }
  }

  // Along the ring to the owner, being added to at every rank, and the result the same way back, so that both
  // directions of every link are used alike.
  void passOn(size_t owner, const Range& part) {
    const std::vector<size_t>& ring = plan_.ring;
    for (size_t i = 0; i < ring.size(); ++i) {
      const size_t from = ring[i], to = ring[(i + 1) % ring.size()];
      if (from == owner) continue;
      peer(from, to, part.size());
      peer(to, from, part.size());
    }
  }

  const LocalPlan& plan_;
  const uint64_t bytes_, unit_;
  const std::vector<Range> parts_;
  std::vector<Copy> copies_;
};

class RingSearch {
 public:
  RingSearch(const Topology& topology, const Placement& placement) : ranks_(placement.ranks.size()) {
    for (size_t a = 0; a < ranks_; ++a)
      for (size_t b = 0; b < ranks_; ++b)
        joined_.push_back(!topology.nvlinkRoute(placement.ranks[a].seat, placement.ranks[b].seat).empty());
  }

  bool all() const {
    for (size_t a = 0; a < ranks_; ++a)
      for (size_t b = a + 1; b < ranks_; ++b)
        if (!joined(a, b)) return false;
    return ranks_ > 1;
  }

  std::vector<size_t> find() {
    ring_ = {0};
    used_.assign(ranks_, false);
    used_[0] = true;
    return ranks_ > 1 && extend() ? ring_ : std::vector<size_t>();
  }

 private:
  bool joined(size_t a, size_t b) const { return joined_[a * ranks_ + b]; }

  bool extend() {
    if (++steps_ > kMostSteps) return false;
    if (ring_.size() == ranks_) return joined(ring_.back(), 0);
    for (size_t next = 1; next < ranks_; ++next) {
      if (used_[next] || !joined(ring_.back(), next)) continue;
      used_[next] = true;
      ring_.push_back(next);
      if (extend()) return true;
      ring_.pop_back();
      used_[next] = false;
    }
    return false;
  }

  size_t ranks_, steps_ = 0;
  std::vector<bool> joined_, used_;
  std::vector<size_t> ring_;
};

}  // namespace

std::string_view nameOf(Strategy strategy) {
  switch (strategy) {
    case Strategy::kCpuAssisted:
      return "cpu_assisted";
    case Strategy::kScatter:
      return "scatter";
    case Strategy::kRooted:
      return "rooted";
    case Strategy::kFlatRing:
      break;
  }
  return "flat_ring";
}

std::vector<size_t> nvlinkRing(const Topology& topology, const Placement& placement) {
  return RingSearch(topology, placement).find();
}

bool nvlinkJoinsAll(const Topology& topology, const Placement& placement) {
  return RingSearch(topology, placement).all();
}

std::vector<Copy> copiesOf(const LocalPlan& plan, uint64_t bytes, uint64_t unit) {
  return Script(plan, bytes, unit).write();
}

std::vector<Copy> bruteForceCopiesOf(const LocalPlan& plan, uint64_t bytes, uint64_t unit) {
  return Script(plan, bytes, unit).writeBruteForce();
}

bool crossesSwitches(const Topology& topology, const std::vector<Copy>& copies) {
  return std::any_of(copies.begin(), copies.end(), [&](const Copy& copy) {
    if (copy.kind != CopyKind::kPeer || topology.node(copy.from).kind != NodeKind::kGpu) return false;
    if (topology.node(copy.to).kind != NodeKind::kGpu || topology.switchOf(copy.from) == topology.switchOf(copy.to))
      return false;
    return topology.nvlinkRoute(copy.from, copy.to).empty();
  });
}

}  // namespace bps
