#include "src/plan/rails.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace bps {
namespace {

constexpr uint64_t kWeightScale = 1U << 20;  // approximate sum of the weights of one machine's rails
constexpr uint64_t kMaxWeight = uint64_t{1} << 32;

}  // namespace

Rails::Rails(std::vector<uint64_t> weights) : weights_(std::move(weights)) {
  const auto drivesNic = [](uint64_t weight) { return weight > 0; };
  mainRail_ = static_cast<size_t>(std::find_if(weights_.begin(), weights_.end(), drivesNic) - weights_.begin());
  hasSeveral_ = std::count_if(weights_.begin(), weights_.end(), drivesNic) > 1;
}

std::vector<size_t> Rails::drivers() const {
  std::vector<size_t> drivers;
  for (size_t rail = 0; rail < weights_.size(); ++rail)
    if (weights_[rail] > 0) drivers.push_back(rail);
  return drivers;
}

ByteRange Rails::rangeOf(size_t rail, uint64_t bytes, uint64_t unit, bool onAllRails) const {
  if (!onAllRails) return {0, bytes};
  const std::vector<uint64_t> offsets = cutByWeight(bytes, unit, weights_);
  return {offsets[rail], offsets[rail + 1]};
}

std::vector<uint64_t> railWeights(const LocalPlan& plan, size_t maxRanks) {
  std::map<NodeId, std::vector<size_t>> ranksOfNic;  // by NIC; ranks without a NIC are under kNoNode
  std::map<NodeId, uint64_t> rates;
  for (const NicAssignment& assignment : plan.assignments) {
    std::vector<size_t>& ranks = ranksOfNic[assignment.nic];
    if (assignment.rank < maxRanks) ranks.push_back(assignment.rank);
    if (!ranks.empty()) rates[assignment.nic] = assignment.weight;
  }
  uint64_t all = 0;
  for (const auto& [nic, rate] : rates) all += rate;
  std::vector<uint64_t> weights(maxRanks);
  for (const auto& [nic, rate] : rates)
    for (const size_t rank : ranksOfNic[nic])
      weights[rank] += std::max<uint64_t>(1, kWeightScale * rate / all / ranksOfNic[nic].size());
  return weights;
}

Blob encodeRailWeights(const std::vector<uint64_t>& weights) {
  WireWriter out;
  for (const uint64_t weight : weights) out.put(weight);
  return std::move(out).take();
}

Result<std::vector<uint64_t>> decodeRailWeights(std::span<const uint8_t> bytes, size_t rails) {
  WireReader in(bytes);
  std::vector<uint64_t> weights(rails);
  for (uint64_t& weight : weights) weight = in.get<uint64_t>();
  BPS_TRY(in.finish("rails of a machine"));
  if (std::any_of(weights.begin(), weights.end(), [](uint64_t weight) { return weight > kMaxWeight; }))
    return Status(Code::kRemote, "rails of a machine: a weight is out of range");
  return weights;
}

Rails commonRails(const std::vector<std::vector<uint64_t>>& machines) {
  std::vector<uint64_t> common = machines.front();
  for (const std::vector<uint64_t>& machine : machines)
    for (size_t rail = 0; rail < common.size(); ++rail) common[rail] = std::min(common[rail], machine[rail]);
  if (std::accumulate(common.begin(), common.end(), uint64_t{0}) == 0) return {};
  return Rails(std::move(common));
}

const NicAssignment* assignmentOf(const LocalPlan& plan, size_t rank) {
  const auto assignment = std::find_if(plan.assignments.begin(), plan.assignments.end(),
                                       [&](const NicAssignment& d) { return d.rank == rank; });
  return assignment == plan.assignments.end() ? nullptr : &*assignment;
}

}  // namespace bps
