#include "topo/plan/cpu_assisted_steps.h"

#include <algorithm>
#include <set>

#include "topo/plan/step_builder.h"

namespace bps {
namespace {

// True if the CPU has nothing to add for this part, because the only group stores its sum in the
// memory where the network reads it.
bool groupSumIsInPlace(const LocalPlan& plan, const NicAssignment& assignment) {
  return plan.placement.groups.size() == 1 && plan.placement.groups[0].numa == assignment.numa;
}

// The stages of cpu_assisted between the first and the last stage. The number 0 means that the
// stage does not exist.
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
  // True if the rank that adds is the group's only rank and has its buffer in host memory. This
  // rank then adds directly from its buffer.
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

  // A rank that is alone in its group adds nothing in the group; it only copies its contribution to
  // host memory.
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

  // Adds up the group's contributions to `shard`, the piece of the chunk that one rank of the group
  // adds. Stores the sum where the next stage reads it.
  void reduceShard(size_t stage, const ByteRange& shard, const std::vector<Source>& sources) {
    const bool completes = groups_.size() == 1;
    if (!plan_.staged) return piece(stage, {shard, sources, Target::kSumArea, completes});
    for (size_t d = 0; d < parts_.size(); ++d)
      piece(stage, {overlap(shard, parts_[d]), sources,
                    groupSumIsInPlace(plan_, plan_.assignments[d]) ? Target::kSumArea : Target::kOwnArea, completes});
  }

  // The CPU next to the NIC reads the sum of each group from the group's NUMA node and adds these
  // sums.
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

  // Returns the location of the sum of group `g` for the byte at `offset`.
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
  std::vector<std::vector<ByteRange>> shards_;  // by group, then by the rank's position in the group
};

}  // namespace

size_t cpuAssistedStages(const LocalPlan& plan) { return CpuAssistedStages(plan).count; }

std::vector<Step> cpuAssistedSteps(const LocalProgram& program, size_t rank, uint64_t bytes, uint64_t unit) {
  return CpuAssistedReduce(program, rank, bytes, unit).build();
}

}  // namespace bps
