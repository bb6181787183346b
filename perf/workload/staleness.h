// How stale the values are from which the ranks of an asynchronous training compute their changes: how many changes of
// other ranks were added between such a value and the change.
#pragma once
#include <array>
#include <cstdint>
#include <string>

#include "perf/app/runner.h"

namespace bps::perf {

Result<uint64_t> sumOverRanks(uint64_t value, Runner& runner);

class StalenessHistogram {
 public:
  void add(uint64_t staleness);
  // All ranks call this function together.
  Result<StalenessHistogram> ofAllRanks(Runner& runner) const;
  double mean() const { return count_ == 0 ? 0 : static_cast<double>(sum_) / static_cast<double>(count_); }
  uint64_t most() const { return most_; }
  // The percentage of each interval that occurred, for example "  0: 12.5 %  1: 60.0 %  5-8: 27.5 %".
  std::string text() const;

 private:
  std::array<uint64_t, 16> buckets_{};  // 0, 1, 2, 3, 4, 5 to 8, 9 to 16, ...
  uint64_t count_ = 0, sum_ = 0, most_ = 0;
};

}  // namespace bps::perf
