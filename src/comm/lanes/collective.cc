#include "src/comm/lanes/collective.h"

#include <algorithm>

namespace bps {

std::vector<ChunkRef> chunksOf(const Cut& cut, size_t elementBytes) {
  std::vector<ChunkRef> chunks;
  if (cut.direct) {
    for (size_t round = 0; round < cut.chunksOf(0); ++round) {
      const ChunkRange range = cut.chunk(0, round);
      chunks.push_back({ChunkRef::kAllMachines, round == 0, range.offset * elementBytes, range.count * elementBytes});
    }
    if (chunks.empty()) chunks.push_back({ChunkRef::kAllMachines, true, 0, 0});
    return chunks;
  }
  const size_t owners = cut.share.size();
  size_t rounds = 1;
  for (size_t owner = 0; owner < owners; ++owner) rounds = std::max(rounds, cut.chunksOf(owner));
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t owner = 0; owner < owners; ++owner) {
      const auto number = static_cast<uint32_t>(owner);
      if (round < cut.chunksOf(owner)) {
        const ChunkRange range = cut.chunk(owner, round);
        chunks.push_back({number, round == 0, range.offset * elementBytes, range.count * elementBytes});
      } else if (round == 0 && owner == cut.checker) {
        chunks.push_back({number, true, 0, 0});
      }
    }
  }
  return chunks;
}

}  // namespace bps
