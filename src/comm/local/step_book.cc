#include "src/comm/local/step_book.h"

namespace bps {
namespace {

// More sizes than the calls of one training step have chunks of.
constexpr size_t kMostPages = 256;

}  // namespace

const StepBook::Entry& StepBook::at(size_t stage, uint64_t bytes, uint64_t unit) {
  const std::pair key(bytes, unit);
  const auto known = pages_.find(key);
  if (known != pages_.end()) return known->second[stage];
  if (pages_.size() == kMostPages) pages_.clear();
  std::vector<Entry> page;
  for (Step& step : program_.steps(rank_, bytes, unit))
    page.push_back({std::move(step.pieces), meter_.chargesOf(step.copies)});
  return pages_.emplace(key, std::move(page)).first->second[stage];
}

}  // namespace bps
