#include "topo/plan/placement.h"

#include <algorithm>
#include <numeric>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr double kUnknownMbps = 10000;  // NCCL assumes this rate for a NIC of unknown speed
// A NIC with less than this fraction of the fastest NIC's rate serves management and is not used.
constexpr double kMinRateFraction = 0.1;
constexpr size_t kMaxRanks = 256;

double rateOf(const Node& nic) { return nic.mbps > 0 ? nic.mbps : kUnknownMbps; }

std::vector<NicShare> usableNics(const Topology& topology) {
  double fastest = 0;
  for (NodeId nic : topology.all(NodeKind::kNic)) fastest = std::max(fastest, rateOf(topology.node(nic)));
  std::vector<NicShare> usable;
  for (NodeId nic : topology.all(NodeKind::kNic)) {
    const double rate = rateOf(topology.node(nic));
    if (rate >= kMinRateFraction * fastest) usable.push_back({nic, std::max<uint64_t>(1, static_cast<uint64_t>(rate))});
  }
  return usable;
}

void formGroups(const Topology& topology, Placement& placement) {
  for (size_t rank = 0; rank < placement.ranks.size(); ++rank) {
    const RankPlacement& place = placement.ranks[rank];
    const bool onGpu = topology.node(place.location).kind == NodeKind::kGpu;
    const NodeId head = onGpu ? topology.switchOf(place.location) : place.location;
    auto& groups = placement.groups;
    auto group = groups.end();
    if (onGpu)
      group = std::find_if(groups.begin(), groups.end(), [&](const SwitchGroup& other) { return other.head == head; });
    if (group == groups.end()) group = groups.insert(groups.end(), {head, place.numa, {}});
    group->ranks.push_back(rank);
    placement.groupOf.push_back(static_cast<size_t>(group - groups.begin()));
  }
}

void divideCpus(const Topology& topology, Placement& placement) {
  for (NodeId numa : topology.all(NodeKind::kNuma)) {
    std::vector<RankPlacement*> here;
    for (RankPlacement& place : placement.ranks)
      if (place.numa == numa) here.push_back(&place);
    for (size_t i = 0; i < here.size(); ++i) here[i]->cpus = topology.node(numa).cpu.cpus.part(i, here.size());
  }
}

enum class Distance { kSameSwitch, kSameNuma, kFar };

Distance distance(const Topology& topology, NodeId location, NodeId nic) {
  const NodeId numa = topology.numaOf(location);
  if (numa != topology.numaOf(nic)) return Distance::kFar;
  for (NodeId a = location; a != numa; a = topology.node(a).parent)
    for (NodeId b = nic; b != numa; b = topology.node(b).parent)
      if (a == b) return Distance::kSameSwitch;
  return Distance::kSameNuma;
}

// Assigns a NIC to each driver, a rank that sends and receives for its machine. Each NIC takes at
// most a number of drivers in proportion to its rate, rounded up.
class NicAssigner {
 public:
  NicAssigner(const Topology& topology, const Placement& placement, const std::vector<size_t>& drivers)
      : topology_(topology), placement_(placement), drivers_(drivers), ranksByNic_(placement.nics.size()) {}

  // Returns the ranks of each NIC, in rank order.
  std::vector<std::vector<size_t>> assign() {
    std::vector<bool> done(drivers_.size());
    for (Distance near : {Distance::kSameSwitch, Distance::kSameNuma, Distance::kFar}) {
      for (size_t i = 0; i < drivers_.size(); ++i) {
        const size_t nic = done[i] ? ranksByNic_.size() : bestNic(drivers_[i], near);
        if (nic == ranksByNic_.size()) continue;
        ranksByNic_[nic].push_back(drivers_[i]);
        done[i] = true;
      }
    }
    for (size_t nic = 0; nic < ranksByNic_.size(); ++nic) {
      if (ranksByNic_[nic].empty()) ranksByNic_[nic].push_back(nearestDriver(nic));
      std::sort(ranksByNic_[nic].begin(), ranksByNic_[nic].end());
    }
    return ranksByNic_;
  }

 private:
  Distance distanceOf(size_t rank, size_t nic) const {
    return distance(topology_, placement_.ranks[rank].location, placement_.nics[nic].nic);
  }

  size_t bestNic(size_t rank, Distance most) const {
    const uint64_t all = std::accumulate(placement_.nics.begin(), placement_.nics.end(), uint64_t{0},
                                         [](uint64_t sum, const NicShare& nic) { return sum + nic.weight; });
    size_t best = ranksByNic_.size();
    double least = 0;
    for (size_t nic = 0; nic < ranksByNic_.size(); ++nic) {
      const uint64_t weight = placement_.nics[nic].weight;
      const uint64_t quota = (drivers_.size() * weight + all - 1) / all;
      if (distanceOf(rank, nic) > most || ranksByNic_[nic].size() >= quota) continue;
      const double load = static_cast<double>(ranksByNic_[nic].size() + 1) / static_cast<double>(weight);
      if (best != ranksByNic_.size() && load >= least) continue;
      best = nic;
      least = load;
    }
    return best;
  }

  size_t nearestDriver(size_t nic) const {
    const auto assignments = [&](size_t rank) {
      return std::count_if(ranksByNic_.begin(), ranksByNic_.end(), [&](const std::vector<size_t>& ranks) {
        return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
      });
    };
    return *std::min_element(drivers_.begin(), drivers_.end(), [&](size_t a, size_t b) {
      return std::pair(distanceOf(a, nic), assignments(a)) < std::pair(distanceOf(b, nic), assignments(b));
    });
  }

  const Topology& topology_;
  const Placement& placement_;
  const std::vector<size_t>& drivers_;
  std::vector<std::vector<size_t>> ranksByNic_;
};

}  // namespace

Result<Placement> placeRanks(const Topology& topology, const std::vector<int>& gpus, BufferLocation bufferLocation) {
  if (gpus.empty() || gpus.size() > kMaxRanks)
    return failure(Code::kInvalidArgument, "{} ranks on one machine, expected 1 to {}", gpus.size(), kMaxRanks);
  const std::vector<NodeId>& there = topology.all(NodeKind::kGpu);
  const std::vector<NodeId>& numas = topology.all(NodeKind::kNuma);
  Placement placement;
  size_t inHostMemory = 0;
  for (size_t rank = 0; rank < gpus.size(); ++rank) {
    if (gpus[rank] >= static_cast<int>(there.size()))
      return failure(Code::kInvalidArgument,
                     "local rank {}: GPU {} does not exist; the topology has {}, counted from 0", rank, gpus[rank],
                     there.size());
    RankPlacement place;
    place.location = gpus[rank] >= 0 ? there[static_cast<size_t>(gpus[rank])] : numas[inHostMemory++ % numas.size()];
    place.numa = topology.numaOf(place.location);
    if (bufferLocation == BufferLocation::kHostNextToGpus) place.location = place.numa;
    placement.ranks.push_back(place);
  }
  formGroups(topology, placement);
  divideCpus(topology, placement);
  placement.nics = usableNics(topology);
  return placement;
}

std::vector<NicAssignment> assignNics(const Topology& topology, const Placement& placement,
                                      const std::vector<size_t>& drivers) {
  std::vector<NicAssignment> assignments;
  if (placement.nics.empty()) {
    for (size_t rank : drivers) assignments.push_back({rank, kNoNode, placement.ranks[rank].numa, 1});
    return assignments;
  }
  const auto drivenBy = NicAssigner(topology, placement, drivers).assign();
  for (size_t nic = 0; nic < drivenBy.size(); ++nic) {
    const NicShare& share = placement.nics[nic];
    for (size_t rank : drivenBy[nic])
      assignments.push_back({rank, share.nic, topology.numaOf(share.nic), share.weight});
  }
  return assignments;
}

std::vector<uint64_t> cutByWeight(uint64_t bytes, uint64_t unit, const std::vector<uint64_t>& weights) {
  const uint64_t units = bytes / unit;
  const uint64_t all = std::accumulate(weights.begin(), weights.end(), uint64_t{0});
  std::vector<uint64_t> offsets = {0};
  uint64_t sum = 0;
  for (uint64_t weight : weights) {
    sum += weight;
    __extension__ using Wide = unsigned __int128;
    offsets.push_back(static_cast<uint64_t>(Wide{units} * sum / all) * unit);
  }
  offsets.back() = bytes;
  return offsets;
}

std::vector<uint64_t> cutByAssignment(uint64_t bytes, uint64_t unit, const std::vector<NicAssignment>& assignments) {
  std::vector<uint64_t> weights, drivers;  // by NIC; a machine without NICs counts as one NIC
  for (size_t i = 0; i < assignments.size(); ++i) {
    if (i == 0 || assignments[i].nic != assignments[i - 1].nic) {
      weights.push_back(assignments[i].weight);
      drivers.push_back(0);
    }
    ++drivers.back();
  }
  const std::vector<uint64_t> parts = cutByWeight(bytes, unit, weights);
  std::vector<uint64_t> offsets = {0};
  for (size_t nic = 0; nic < weights.size(); ++nic) {
    const std::vector<uint64_t> even =
        cutByWeight(parts[nic + 1] - parts[nic], unit, std::vector<uint64_t>(drivers[nic], 1));
    for (size_t i = 1; i < even.size(); ++i) offsets.push_back(parts[nic] + even[i]);
  }
  return offsets;
}

}  // namespace bps
