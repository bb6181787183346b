#include "src/reducer/bucket_plan.h"

#include <algorithm>
#include <map>
#include <utility>

#include "src/base/memory.h"

namespace bps::reducer {
namespace {

struct OpenBucket {
  Bucket bucket;
  size_t lastPosition = 0;  // in the order, of the last parameter
};

std::vector<bool> findUrgent(std::span<const Parameter> parameters, size_t urgentBytes) {
  std::vector<bool> urgent(parameters.size());
  size_t before = 0;
  for (size_t i = 0; i < parameters.size() && before < urgentBytes; ++i) {
    urgent[i] = true;
    before += parameters[i].bytes();
  }
  return urgent;
}

void append(OpenBucket& open, size_t parameter, const Parameter& what, size_t position) {
  const size_t offset = roundUp(open.bucket.bytes, kSlotBytes);
  open.bucket.type = what.type;
  open.bucket.parameters.push_back(parameter);
  open.bucket.offsets.push_back(offset);
  open.bucket.bytes = offset + what.bytes();
  open.lastPosition = position;
}

}  // namespace

std::vector<Bucket> planBuckets(std::span<const Parameter> parameters, std::span<const uint32_t> order,
                                const BucketLimits& limits) {
  const std::vector<bool> urgent = findUrgent(parameters, limits.urgentBytes);
  std::map<std::pair<DataType, bool>, OpenBucket> open;
  std::vector<OpenBucket> full;
  for (size_t position = 0; position < order.size(); ++position) {
    const size_t parameter = order[position];
    const Parameter& what = parameters[parameter];
    OpenBucket& mine = open[{what.type, urgent[parameter]}];
    const size_t limit = full.empty() ? limits.firstBytes : limits.bytes;
    const bool fits = roundUp(mine.bucket.bytes, kSlotBytes) + what.bytes() <= limit;
    if (!fits && !mine.bucket.parameters.empty()) full.push_back(std::exchange(mine, {}));
    mine.bucket.queue = urgent[parameter] ? limits.queues : 0;
    append(mine, parameter, what, position);
  }
  for (auto& [kind, rest] : open) full.push_back(std::move(rest));
  std::sort(full.begin(), full.end(), [](const auto& a, const auto& b) { return a.lastPosition < b.lastPosition; });
  std::vector<Bucket> buckets;
  size_t turn = 0;
  for (OpenBucket& each : full) {
    if (each.bucket.queue != limits.queues) each.bucket.queue = turn++ % limits.queues;
    buckets.push_back(std::move(each.bucket));
  }
  return buckets;
}

std::vector<uint32_t> reverseOrder(size_t parameters) {
  std::vector<uint32_t> order(parameters);
  for (size_t i = 0; i < parameters; ++i) order[i] = static_cast<uint32_t>(parameters - 1 - i);
  return order;
}

bool isPermutation(std::span<const uint32_t> order) {
  std::vector<bool> seen(order.size());
  return std::all_of(order.begin(), order.end(), [&](uint32_t each) {
    if (each >= seen.size() || seen[each]) return false;
    return bool(seen[each] = true);
  });
}

}  // namespace bps::reducer
