#include "src/comm/local/step_cache.h"

namespace bps {
namespace {

// More than the number of different chunk sizes in one training step.
constexpr size_t kMaxCachedSizes = 256;

}  // namespace

const StepCache::Entry& StepCache::at(size_t stage, uint64_t bytes, uint64_t unit) {
  const std::pair key(bytes, unit);
  const auto known = stagesBySize_.find(key);
  if (known != stagesBySize_.end()) return known->second[stage];
  if (stagesBySize_.size() == kMaxCachedSizes) stagesBySize_.clear();
  std::vector<Entry> stages;
  for (Step& step : program_.steps(rank_, bytes, unit))
    stages.push_back({std::move(step.pieces), meter_.incrementsOf(step.copies)});
  return stagesBySize_.emplace(key, std::move(stages)).first->second[stage];
}

}  // namespace bps
