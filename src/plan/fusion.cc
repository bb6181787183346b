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

// A fused call that takes more calls.
struct OpenCall {
  size_t issue = 0;  // its index in the result
  size_t seen = 0;   // `surrounding` covers the calls of the group from its first call up to this index
  CallBuffers surrounding = {};
};

// True if the call can be carried out together with `fused`, ahead of the calls between them,
// without a change of any result.
bool canJoin(OpenCall& open, const FusedCall& fused, size_t index, const std::vector<GroupCall>& calls) {
  const GroupCall& call = calls[index];
  if (fused.size() == FusedCalls::kMaxCalls || call.number - calls[fused.back()].number > kMaxDistance) return false;
  for (; open.seen < index; ++open.seen) open.surrounding.extend(calls[open.seen].buffers);
  if (!open.surrounding.conflicts(call.buffers)) return true;  // the usual case, which needs no further comparison
  auto next = fused.begin();
  for (size_t earlier = fused.front(); earlier < index; ++earlier) {
    const bool together = next != fused.end() && *next == earlier;
    if (together) ++next;
    const CallBuffers& other = calls[earlier].buffers;
    if (together ? other.writes.overlaps(call.buffers.reads) : other.conflicts(call.buffers)) return false;
  }
  return true;
}

}  // namespace

std::vector<std::vector<size_t>> fuseCalls(const std::vector<GroupCall>& calls) {
  std::vector<FusedCall> issues;
  std::map<std::tuple<const void*, uint8_t, uint8_t>, OpenCall> open;
  for (size_t i = 0; i < calls.size(); ++i) {
    const GroupCall& call = calls[i];
    const std::tuple key(call.comm, call.type, call.op);
    const auto found = isSmall(call) ? open.find(key) : open.end();
    if (found != open.end() && canJoin(found->second, issues[found->second.issue], i, calls)) {
      issues[found->second.issue].push_back(i);
      continue;
    }
    if (isSmall(call)) open[key] = {issues.size(), i};
    issues.push_back({i});
  }
  return issues;
}

}  // namespace bps
