#include "topo/plan/step_builder.h"

namespace bps {

std::vector<ByteRange> rangesOf(const std::vector<uint64_t>& offsets) {
  std::vector<ByteRange> parts;
  for (size_t i = 0; i + 1 < offsets.size(); ++i) parts.push_back({offsets[i], offsets[i + 1]});
  return parts;
}

std::vector<ByteRange> splitEvenly(const ByteRange& whole, uint64_t unit, size_t parts) {
  std::vector<uint64_t> offsets = cutByWeight(whole.size(), unit, std::vector<uint64_t>(parts, 1));
  for (uint64_t& offset : offsets) offset += whole.begin;
  return rangesOf(offsets);
}

ByteRange overlap(const ByteRange& a, const ByteRange& b) {
  const uint64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

bool inHostMemory(const LocalPlan& plan, size_t rank) {
  return plan.placement.ranks[rank].location == plan.placement.ranks[rank].numa;
}

}  // namespace bps
