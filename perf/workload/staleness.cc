#include "perf/workload/staleness.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps::perf {

Result<uint64_t> sumOverRanks(uint64_t value, Runner& runner) {
  uint64_t sum = 0;
  BPS_TRY(runner.allReduce(&value, &sum, 1, bpsUint64, bpsSum));
  BPS_TRY(runner.synchronize());
  return sum;
}

void StalenessHistogram::add(uint64_t staleness) {
  size_t bucket = std::min<uint64_t>(staleness, 4);
  for (uint64_t most = 4; staleness > most && bucket + 1 < buckets_.size(); most *= 2) ++bucket;
  ++buckets_[bucket];
  ++count_;
  sum_ += staleness;
  most_ = std::max(most_, staleness);
}

Result<StalenessHistogram> StalenessHistogram::ofAllRanks(Runner& runner) const {
  StalenessHistogram all;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket)
    all.buckets_[bucket] = BPS_TRY(sumOverRanks(buckets_[bucket], runner));
  all.count_ = BPS_TRY(sumOverRanks(count_, runner));
  all.sum_ = BPS_TRY(sumOverRanks(sum_, runner));
  all.most_ = static_cast<uint64_t>(BPS_TRY(runner.maxOverRanks(static_cast<double>(most_))));
  return all;
}

std::string StalenessHistogram::text() const {
  std::string text;
  for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    if (buckets_[bucket] == 0) continue;
    const uint64_t most = bucket <= 4 ? bucket : uint64_t{4} << (bucket - 4);
    const bool last = bucket + 1 == buckets_.size();
    const std::string name = bucket <= 4 ? fmt::format("{}", bucket)
                             : last      ? fmt::format("{} or more", most / 2 + 1)
                                         : fmt::format("{}-{}", most / 2 + 1, most);
    text +=
        fmt::format("  {}: {:.1f} %", name, 100 * static_cast<double>(buckets_[bucket]) / static_cast<double>(count_));
  }
  return text;
}

}  // namespace bps::perf
