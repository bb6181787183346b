#include "src/control/hub/relayed_losses.h"

#include <algorithm>
#include <utility>

namespace bps {
namespace {

constexpr uint32_t kDirect = ~uint32_t{0};

}  // namespace

void RelayedLosses::setVia(size_t rank, uint32_t via) {
  if (via == kDirect) return;
  if (via_.size() <= rank) via_.resize(rank + 1, kDirect);
  via_[rank] = via;
}

void RelayedLosses::add(size_t member, Status why, Deadline decision) {
  if (lost_.empty()) decision_ = decision;
  lost_.push_back({member, std::move(why)});
}

bool RelayedLosses::has(size_t member) const {
  return std::ranges::any_of(lost_, [&](const Loss& loss) { return loss.member == member; });
}

bool RelayedLosses::viaLost(size_t member) const {
  return member < via_.size() && via_[member] != kDirect && has(via_[member]);
}

Status RelayedLosses::due(const std::function<bool(size_t member)>& isSuspected) const {
  if (lost_.empty() || !decision_.passed()) return {};
  const Loss* blamed = nullptr;
  for (const Loss& loss : lost_) {
    if (viaLost(loss.member)) continue;
    if (blamed == nullptr || (isSuspected(loss.member) && !isSuspected(blamed->member))) blamed = &loss;
  }
  return (blamed != nullptr ? *blamed : lost_.front()).why.clone();
}

}  // namespace bps
