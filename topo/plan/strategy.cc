#include "topo/plan/strategy.h"

#include <algorithm>

namespace bps {
namespace {

constexpr size_t kMostSteps = 200000;  // limit of the ring search; real machines need far fewer steps

class RingSearch {
 public:
  RingSearch(const Topology& topology, const Placement& placement) : ranks_(placement.ranks.size()) {
    for (size_t a = 0; a < ranks_; ++a)
      for (size_t b = 0; b < ranks_; ++b)
        joined_.push_back(!topology.nvlinkRoute(placement.ranks[a].location, placement.ranks[b].location).empty());
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

bool nvlinkConnectsAll(const Topology& topology, const Placement& placement) {
  return RingSearch(topology, placement).all();
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
