#include "src/comm/lanes/substitute_lane.h"

namespace bps {

Result<bool> SubstituteLane::step(uint64_t) {
  for (; !waiting_.empty(); waiting_.pop_front()) path_->submit(waiting_.front());
  return path_->step(0);
}

uint64_t SubstituteLane::oldestRound() const {
  const std::optional<SubmittedChunk> oldest = path_->oldest();
  return oldest ? roundOf(*oldest) : Lane::oldestRound();
}

std::optional<uint64_t> SubstituteLane::checkWait(std::chrono::milliseconds) {
  const std::optional<EndpointWait> wait = path_->checkWait();
  awaited_ = wait ? std::optional(wait->endpoint) : std::nullopt;
  return wait ? std::optional(wait->call) : std::nullopt;
}

}  // namespace bps
