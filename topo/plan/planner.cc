#include "topo/plan/planner.h"

#include <algorithm>
#include <numeric>

#include "src/base/format.h"
#include "topo/plan/reason.h"

namespace bps {
namespace {

constexpr double kRelativeTolerance = 1e-9;  // strategies whose times differ by a smaller fraction count as equal

bool less(double a, double b) { return a < b * (1 - kRelativeTolerance); }

class Planner {
 public:
  Planner(const Topology& topology, const LocalPlanRequest& job, Placement placement)
      : topology_(topology), request_(job), placement_(std::move(placement)), ring_(nvlinkRing(topology, placement_)) {
    nvlink_ = !ring_.empty();
    alongRing_ = nvlink_ && !nvlinkConnectsAll(topology, placement_);
    if (!nvlink_) ring_ = byGroup();
  }

  Decision decide() {
    Decision decision;
    std::vector<NodeId> bufferLocation;
    for (const RankPlacement& place : placement_.ranks) bufferLocation.push_back(place.location);
    decision.switches = topology_.countSwitches(bufferLocation);
    for (Strategy strategy : kStrategies)
      decision.candidates.push_back(strategy == Strategy::kRooted ? rooted() : evaluate(strategy, allRanks()));
    decision.chosen = choose(decision.candidates);
    decision.reason = reasonOf(topology_, request_, decision, nvlink_);
    return decision;
  }

 private:
  std::vector<size_t> allRanks() const {
    std::vector<size_t> ranks(placement_.ranks.size());
    std::iota(ranks.begin(), ranks.end(), size_t{0});
    return ranks;
  }
  std::vector<size_t> byGroup() const {
    std::vector<size_t> order;
    for (const SwitchGroup& group : placement_.groups)
      order.insert(order.end(), group.ranks.begin(), group.ranks.end());
    return order;
  }
  bool onGpu(size_t rank) const { return topology_.node(placement_.ranks[rank].location).kind == NodeKind::kGpu; }

  Candidate evaluate(Strategy strategy, const std::vector<size_t>& drivers) const {
    Candidate candidate{.plan = {}, .traffic = Traffic(topology_)};
    LocalPlan& plan = candidate.plan;
    plan.strategy = strategy;
    plan.placement = placement_;
    if (strategy == Strategy::kRooted) plan.roots = drivers;
    plan.assignments = assignNics(topology_, placement_, drivers);
    plan.ring = ring_;
    plan.alongRing = alongRing_;
    plan.network = request_.network;
    plan.staged = request_.network > 0 && (placement_.ranks.size() > 1 || onGpu(0));
    plan.staged = plan.staged || (strategy == Strategy::kCpuAssisted && placement_.groups.size() > 1);
    const std::vector<Copy> copies = copiesOf(plan, request_.bytes, request_.unit);
    for (const Copy& copy : copies) candidate.traffic.addCopy(topology_, copy);
    candidate.copiesCrossSwitches = crossesSwitches(topology_, copies);
    computeCost(candidate);
    return candidate;
  }

  void computeCost(Candidate& candidate) const {
    const std::vector<double> times = linkSeconds(topology_, candidate.traffic);
    for (size_t i = 0; i < times.size(); ++i) {
      if (times[i] <= candidate.seconds) continue;
      candidate.seconds = times[i];
      candidate.slowest = static_cast<LinkId>(i / kLimits);
      candidate.limit = static_cast<Limit>(i % kLimits);
    }
    for (LinkId id = 0; id < topology_.links().size(); ++id) {
      const LinkBytes& bytes = candidate.traffic.linkBytes(id);
      if (topology_.sharedWithNic(id)) candidate.besideNic += bytes.gpuBytes(true) + bytes.gpuBytes(false);
      if (topology_.link(id).kind == LinkKind::kInterconnect)
        candidate.interconnectBytes += bytes.total(true) + bytes.total(false);
    }
  }

  // Adds roots one by one. The next root is the rank that causes the fewest bytes of GPU copies on
  // links shared with a NIC. Among equal ranks, the fewest bytes on the CPU interconnect decide,
  // then the least J (defined in planner.h).
  Candidate rooted() const {
    std::vector<size_t> roots = {bestRoot({})};
    Candidate best = evaluate(Strategy::kRooted, roots);
    const size_t most =
        request_.roots > 0 ? std::min(request_.roots, placement_.ranks.size()) : placement_.groups.size();
    while (roots.size() < most) {
      roots.push_back(bestRoot(roots));
      std::vector<size_t> inOrder = roots;
      std::sort(inOrder.begin(), inOrder.end());
      Candidate more = evaluate(Strategy::kRooted, inOrder);
      if (request_.roots > 0 || (less(more.seconds, best.seconds) && more.besideNic <= best.besideNic))
        best = std::move(more);
    }
    return best;
  }

  size_t bestRoot(std::vector<size_t> roots) const {
    const size_t place = roots.size();
    roots.push_back(0);
    size_t best = placement_.ranks.size();
    std::optional<Candidate> least;
    for (const SwitchGroup& group : placement_.groups) {
      // The ranks of a group are equivalent: try only the first one that is not yet a root.
      const auto rank = std::find_if(group.ranks.begin(), group.ranks.end(), [&](size_t r) {
        return std::find(roots.begin(), roots.begin() + static_cast<std::ptrdiff_t>(place), r) ==
               roots.begin() + static_cast<std::ptrdiff_t>(place);
      });
      if (rank == group.ranks.end()) continue;
      roots[place] = *rank;
      Candidate candidate = evaluate(Strategy::kRooted, roots);
      if (!least || betterRoot(candidate, *least)) {
        least = std::move(candidate);
        best = *rank;
      }
      if (!onGpu(*rank)) break;  // all ranks in host memory are equivalent as roots
    }
    return best;
  }

  static bool betterRoot(const Candidate& a, const Candidate& b) {
    if (a.besideNic != b.besideNic) return a.besideNic < b.besideNic;
    if (a.interconnectBytes != b.interconnectBytes) return a.interconnectBytes < b.interconnectBytes;
    return less(a.seconds, b.seconds);
  }

  // Among equally good strategies, the BytePS paper prefers scatter and then rooted if there is
  // NVLink. Without NVLink, it prefers cpu_assisted.
  size_t choose(const std::vector<Candidate>& candidates) const {
    static constexpr size_t kNvlinkPreference[] = {1, 2, 0, 3}, kPciePreference[] = {0, 1, 2, 3};
    size_t best = candidates.size();
    for (size_t i : nvlink_ ? kNvlinkPreference : kPciePreference) {
      const Candidate& candidate = candidates[i];
      if (request_.strategy) {
        if (candidate.plan.strategy == *request_.strategy) return i;
        continue;
      }
      if (!candidate.copiesCrossSwitches && (best == candidates.size() || better(candidate, candidates[best])))
        best = i;
    }
    return best;
  }

  static bool better(const Candidate& a, const Candidate& b) {
    if (less(a.seconds, b.seconds) || less(b.seconds, a.seconds)) return a.seconds < b.seconds;
    if (a.besideNic != b.besideNic) return a.besideNic < b.besideNic;
    return a.interconnectBytes < b.interconnectBytes;
  }

  const Topology& topology_;
  const LocalPlanRequest& request_;
  const Placement placement_;
  std::vector<size_t> ring_;
  bool nvlink_ = false, alongRing_ = false;
};

std::vector<int> defaultGpus(const Topology& topology) {
  std::vector<int> gpus(topology.all(NodeKind::kGpu).size());
  std::iota(gpus.begin(), gpus.end(), 0);
  return gpus.empty() ? std::vector<int>{-1} : gpus;
}

}  // namespace

Result<Decision> planLocal(const Topology& topology, const LocalPlanRequest& job) {
  if (job.unit == 0) return Status(Code::kInvalidArgument, "the element size is 0 bytes, expected at least 1");
  if (job.bytes > uint64_t{1} << 50)
    return failure(Code::kInvalidArgument, "a buffer of {} bytes is too large, expected at most 2^50", job.bytes);
  const std::vector<int> gpus = job.gpus.empty() ? defaultGpus(topology) : job.gpus;
  if (job.roots > gpus.size())
    return failure(Code::kInvalidArgument, "{} roots for {} ranks, expected at most one root per rank", job.roots,
                   gpus.size());
  return Planner(topology, job, BPS_TRY(placeRanks(topology, gpus, job.bufferLocation))).decide();
}

Traffic predict(const Topology& topology, const LocalPlan& plan, uint64_t bytes, uint64_t unit) {
  Traffic traffic(topology);
  for (const Copy& copy : copiesOf(plan, bytes, unit)) traffic.addCopy(topology, copy);
  return traffic;
}

Result<std::optional<Strategy>> parseStrategy(const std::string& name) {
  std::string choices = "auto";
  if (name.empty() || name == "auto") return std::optional<Strategy>();
  for (Strategy strategy : kStrategies) {
    if (name == nameOf(strategy)) return std::optional<Strategy>(strategy);
    choices += fmt::format(", {}", nameOf(strategy));
  }
  return failure(Code::kInvalidArgument, "strategy {} does not exist, expected one of {}", name, choices);
}

}  // namespace bps
