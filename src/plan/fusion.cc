#include "src/plan/fusion.h"

#include <limits>
#include <map>
#include <tuple>

#include "src/plan/constants.h"
#include "src/wire/fused_calls.h"

namespace bps {
namespace {

using FusedCall = std::vector<size_t>;
constexpr size_t kMaxDistance = std::numeric_limits<decltype(FusedCalls::Entry::distance)>::max();
static_assert(constants::kMaxFusedBytes <= std::numeric_limits<decltype(FusedCalls::Entry::count)>::max());

bool isSmall(const GroupCall& call) { return call.mayFuse && call.bytes <= constants::kMaxFusedBytes; }

bool conflict(const GroupCall& a, const GroupCall& b) {
  return a.writes.overlaps(b.reads) || a.writes.overlaps(b.writes) || a.reads.overlaps(b.writes);
}

// True if the call can be carried out together with `fused`, ahead of the calls between them,
// without a change of any result.
bool canJoin(const FusedCall& fused, size_t index, const std::vector<GroupCall>& calls) {
  const GroupCall& call = calls[index];
  if (fused.size() == FusedCalls::kMaxCalls || call.number - calls[fused.back()].number > kMaxDistance) return false;
  auto next = fused.begin();
  for (size_t earlier = fused.front(); earlier < index; ++earlier) {
    const bool together = next != fused.end() && *next == earlier;
    if (together) ++next;
    if (together ? calls[earlier].writes.overlaps(call.reads) : conflict(calls[earlier], call)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::vector<size_t>> fuseCalls(const std::vector<GroupCall>& calls) {
  std::vector<FusedCall> issues;
  std::map<std::tuple<const void*, uint8_t, uint8_t>, size_t> open;  // the fused call that takes more calls
  for (size_t i = 0; i < calls.size(); ++i) {
    const GroupCall& call = calls[i];
    const std::tuple key(call.comm, call.type, call.op);
    const auto found = isSmall(call) ? open.find(key) : open.end();
    if (found != open.end() && canJoin(issues[found->second], i, calls)) {
      issues[found->second].push_back(i);
      continue;
    }
    if (isSmall(call)) open[key] = issues.size();
    issues.push_back({i});
  }
  return issues;
}

}  // namespace bps
