#include "topo/plan/planner.h"

#include <algorithm>
#include <numeric>

#include "src/base/format.h"
#include "topo/plan/mixture.h"
#include "topo/plan/reason.h"

namespace bps {
namespace {

constexpr double kEqual = 1e-9;  // J that differ by less, in proportion, are equal

bool less(double a, double b) { return a < b * (1 - kEqual); }

class Planner {
 public:
  Planner(const Topology& topology, const LocalJob& job, Placement placement)
      : topology_(topology), job_(job), placement_(std::move(placement)), ring_(nvlinkRing(topology, placement_)) {
    nvlink_ = !ring_.empty();
    alongRing_ = nvlink_ && !nvlinkJoinsAll(topology, placement_);
    if (!nvlink_) ring_ = byGroup();
  }

  Decision decide() {
    Decision decision;
    std::vector<NodeId> seats;
    for (const RankPlace& place : placement_.ranks) seats.push_back(place.seat);
    decision.switches = topology_.countSwitches(seats);
    for (Strategy strategy : kStrategies)
      decision.candidates.push_back(strategy == Strategy::kRooted ? rooted() : evaluate(strategy, allRanks()));
    decision.chosen = choose(decision.candidates);
    decision.mixture = bestMixture(topology_, decision.candidates[0].plan, job_.bytes, job_.unit);
    decision.reason = reasonOf(topology_, job_, decision, nvlink_);
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
    for (const RankGroup& group : placement_.groups) order.insert(order.end(), group.ranks.begin(), group.ranks.end());
    return order;
  }
  bool onGpu(size_t rank) const { return topology_.node(placement_.ranks[rank].seat).kind == NodeKind::kGpu; }

  Candidate evaluate(Strategy strategy, const std::vector<size_t>& drivers) const {
    Candidate made{.plan = {}, .traffic = Traffic(topology_)};
    LocalPlan& plan = made.plan;
    plan.strategy = strategy;
    plan.placement = placement_;
    if (strategy == Strategy::kRooted) plan.roots = drivers;
    plan.duties = assignNics(topology_, placement_, drivers);
    plan.ring = ring_;
    plan.alongRing = alongRing_;
    plan.network = job_.network;
    plan.staged = job_.network > 0 && (placement_.ranks.size() > 1 || onGpu(0));
    plan.staged = plan.staged || (strategy == Strategy::kCpuAssisted && placement_.groups.size() > 1);
    const std::vector<Copy> copies = copiesOf(plan, job_.bytes, job_.unit);
    for (const Copy& copy : copies) made.traffic.charge(topology_, copy);
    made.crosses = crossesSwitches(topology_, copies);
    judge(made);
    return made;
  }

  void judge(Candidate& made) const {
    const std::vector<double> times = timesOf(topology_, made.traffic);
    for (size_t i = 0; i < times.size(); ++i) {
      if (times[i] <= made.seconds) continue;
      made.seconds = times[i];
      made.slowest = static_cast<LinkId>(i / kLimits);
      made.limit = static_cast<Limit>(i % kLimits);
    }
    for (LinkId id = 0; id < topology_.links().size(); ++id) {
      const LinkBytes& bytes = made.traffic.on(id);
      if (topology_.sharedWithNic(id)) made.besideNic += bytes.ofGpus(true) + bytes.ofGpus(false);
      if (topology_.link(id).kind == LinkKind::kInterconnect)
        made.overInterconnect += bytes.total(true) + bytes.total(false);
    }
  }

  // Roots are added one by one, each the one beside which a NIC suffers least, then by the interconnect, then by J.
  Candidate rooted() const {
    std::vector<size_t> roots = {bestRoot({})};
    Candidate best = evaluate(Strategy::kRooted, roots);
    const size_t most = job_.roots > 0 ? std::min(job_.roots, placement_.ranks.size()) : placement_.groups.size();
    while (roots.size() < most) {
      roots.push_back(bestRoot(roots));
      std::vector<size_t> inOrder = roots;
      std::sort(inOrder.begin(), inOrder.end());
      Candidate more = evaluate(Strategy::kRooted, inOrder);
      if (job_.roots > 0 || (less(more.seconds, best.seconds) && more.besideNic <= best.besideNic))
        best = std::move(more);
    }
    return best;
  }

  size_t bestRoot(std::vector<size_t> roots) const {
    const size_t place = roots.size();
    roots.push_back(0);
    size_t best = placement_.ranks.size();
    std::optional<Candidate> least;
    for (const RankGroup& group : placement_.groups) {
      // The ranks of a group are alike: the first that is not yet a root stands for it.
      const auto rank = std::find_if(group.ranks.begin(), group.ranks.end(), [&](size_t r) {
        return std::find(roots.begin(), roots.begin() + static_cast<std::ptrdiff_t>(place), r) ==
               roots.begin() + static_cast<std::ptrdiff_t>(place);
      });
      if (rank == group.ranks.end()) continue;
      roots[place] = *rank;
      Candidate made = evaluate(Strategy::kRooted, roots);
      if (!least || betterRoot(made, *least)) {
        least = std::move(made);
        best = *rank;
      }
      if (!onGpu(*rank)) break;  // ranks in host memory differ in nothing that matters here
    }
    return best;
  }

  static bool betterRoot(const Candidate& a, const Candidate& b) {
    if (a.besideNic != b.besideNic) return a.besideNic < b.besideNic;
    if (a.overInterconnect != b.overInterconnect) return a.overInterconnect < b.overInterconnect;
    return less(a.seconds, b.seconds);
  }

  // With NVLink the published order of preference between equals is scatter, then rooted; without it cpu_assisted.
  size_t choose(const std::vector<Candidate>& candidates) const {
    static constexpr size_t kWith[] = {1, 2, 0, 3}, kWithout[] = {0, 1, 2, 3};
    size_t best = candidates.size();
    for (size_t i : nvlink_ ? kWith : kWithout) {
      const Candidate& made = candidates[i];
      if (job_.strategy) {
        if (made.plan.strategy == *job_.strategy) return i;
        continue;
      }
      if (!made.crosses && (best == candidates.size() || better(made, candidates[best]))) best = i;
    }
    return best;
  }

  static bool better(const Candidate& a, const Candidate& b) {
    if (less(a.seconds, b.seconds) || less(b.seconds, a.seconds)) return a.seconds < b.seconds;
    if (a.besideNic != b.besideNic) return a.besideNic < b.besideNic;
    return a.overInterconnect < b.overInterconnect;
  }

  const Topology& topology_;
  const LocalJob& job_;
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

Result<Decision> planLocal(const Topology& topology, const LocalJob& job) {
  if (job.unit == 0) return Status(Code::kInvalidArgument, "elements of 0 bytes");
  if (job.bytes > uint64_t{1} << 50) return failure(Code::kInvalidArgument, "a buffer of {} bytes", job.bytes);
  const std::vector<int> gpus = job.gpus.empty() ? defaultGpus(topology) : job.gpus;
  if (job.roots > gpus.size())
    return failure(Code::kInvalidArgument, "{} roots among {} ranks", job.roots, gpus.size());
  return Planner(topology, job, BPS_TRY(placeRanks(topology, gpus, job.seats))).decide();
}

Traffic predict(const Topology& topology, const LocalPlan& plan, uint64_t bytes, uint64_t unit) {
  Traffic traffic(topology);
  for (const Copy& copy : copiesOf(plan, bytes, unit)) traffic.charge(topology, copy);
  return traffic;
}

Result<std::optional<Strategy>> parseStrategy(const std::string& name) {
  std::string choices = "auto";
  if (name.empty() || name == "auto") return std::optional<Strategy>();
  for (Strategy strategy : kStrategies) {
    if (name == nameOf(strategy)) return std::optional<Strategy>(strategy);
    choices += fmt::format(", {}", nameOf(strategy));
  }
  return failure(Code::kInvalidArgument, "strategy {} is none of {}", name, choices);
}

}  // namespace bps
