#include "src/control/hub/suspicions.h"

#include <algorithm>
#include <utility>

namespace bps {
namespace {

// Interval at which the hub checks whether heartbeats of a suspected member still arrive.
constexpr std::chrono::milliseconds kRecheck(20);

}  // namespace

void Suspicions::add(Suspicion suspicion, Deadline deadline) {
  const auto same = [&](const Waiting& earlier) { return earlier.suspicion.member == suspicion.member; };
  if (std::none_of(waiting_.begin(), waiting_.end(), same))  // the earlier suspicion has the earlier deadline
    waiting_.push_back({std::move(suspicion), deadline});
}

void Suspicions::remove(size_t member) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    const Suspicion& suspicion = waiting.suspicion;
    return suspicion.member == member || suspicion.suspected == member || suspicion.from == member;
  });
}

bool Suspicions::suspects(size_t member) const {
  return std::ranges::any_of(waiting_, [&](const Waiting& waiting) { return waiting.suspicion.member == member; });
}

std::optional<Suspicion> Suspicions::takeDue(const std::function<bool(size_t member)>& missesHeartbeats) {
  for (auto waiting = waiting_.begin(); waiting != waiting_.end(); ++waiting) {
    if (!waiting->deadline.passed()) continue;
    if (missesHeartbeats(waiting->suspicion.member) || missesHeartbeats(waiting->suspicion.suspected)) {
      waiting->deadline = Deadline::in(kRecheck);
      continue;
    }
    Suspicion due = std::move(waiting->suspicion);
    waiting_.erase(waiting);
    return due;
  }
  return {};
}

Deadline Suspicions::deadline() const {
  Deadline first = Deadline::never();
  for (const Waiting& waiting : waiting_) first = first.earlier(waiting.deadline);
  return first;
}

}  // namespace bps
