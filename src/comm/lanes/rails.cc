#include "src/comm/lanes/rails.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace bps {
namespace {

constexpr uint64_t kWhole = 1U << 20;  // what the rails of one machine are worth together, about
constexpr uint64_t kMostWeight = uint64_t{1} << 32;

}  // namespace

Rails::Rails(std::vector<uint64_t> weights) : weights_(std::move(weights)) {
  const auto driver = [](uint64_t weight) { return weight > 0; };
  main_ = static_cast<size_t>(std::find_if(weights_.begin(), weights_.end(), driver) - weights_.begin());
  several_ = std::count_if(weights_.begin(), weights_.end(), driver) > 1;
}

std::vector<size_t> Rails::drivers() const {
  std::vector<size_t> drivers;
  for (size_t rail = 0; rail < weights_.size(); ++rail)
    if (weights_[rail] > 0) drivers.push_back(rail);
  return drivers;
}

Part Rails::partOf(size_t rail, uint64_t bytes, uint64_t unit, bool spread) const {
  if (!spread) return {0, bytes};
  const std::vector<uint64_t> offsets = cutByWeight(bytes, unit, weights_);
  return {offsets[rail], offsets[rail + 1]};
}

std::vector<uint64_t> railWeights(const LocalPlan& plan, size_t most, bool onePerNic) {
  std::map<NodeId, std::vector<size_t>> carriers;  // of each NIC, without NICs of kNoNode
  std::map<NodeId, uint64_t> rates;
  for (const NicDuty& duty : plan.duties) {
    std::vector<size_t>& ranks = carriers[duty.nic];
    if (duty.rank < most && (ranks.empty() || !onePerNic)) ranks.push_back(duty.rank);
    if (!ranks.empty()) rates[duty.nic] = duty.weight;
  }
  uint64_t all = 0;
  for (const auto& [nic, rate] : rates) all += rate;
  std::vector<uint64_t> weights(most);
  for (const auto& [nic, rate] : rates)
    for (const size_t rank : carriers[nic])
      weights[rank] += std::max<uint64_t>(1, kWhole * rate / all / carriers[nic].size());
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
  if (std::any_of(weights.begin(), weights.end(), [](uint64_t weight) { return weight > kMostWeight; }))
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

const NicDuty* dutyOf(const LocalPlan& plan, size_t rank) {
  const auto duty =
      std::find_if(plan.duties.begin(), plan.duties.end(), [&](const NicDuty& d) { return d.rank == rank; });
  return duty == plan.duties.end() ? nullptr : &*duty;
}

}  // namespace bps
