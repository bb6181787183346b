#include "src/comm/lanes/collective.h"

#include <algorithm>

namespace bps {

std::vector<ChunkRef> chunksOf(const Cut& cut, size_t elementBytes) {
  std::vector<ChunkRef> chunks;
  if (cut.direct) {
    for (size_t round = 0; round < cut.chunks.front(); ++round) {
      const ChunkRange range = cut.chunk(0, round);
      chunks.push_back({ChunkRef::kAllMachines, round == 0, range.offset * elementBytes, range.count * elementBytes});
    }
    if (chunks.empty()) chunks.push_back({ChunkRef::kAllMachines, true, 0, 0});
    return chunks;
  }
  std::vector<size_t> next(cut.share.size(), 0);  // per owner
  for (size_t round = 0; round < std::max<size_t>(1, cut.rounds); ++round) {
    for (size_t owner = 0; owner < cut.share.size(); ++owner) {
      const auto number = static_cast<uint32_t>(owner);
      const size_t index = next[owner];
      if (index < cut.chunks[owner] && cut.roundOf(owner, index) == round) {
        const ChunkRange range = cut.chunk(owner, index);
        chunks.push_back({number, index == 0, range.offset * elementBytes, range.count * elementBytes,
                          static_cast<uint8_t>(cut.span[owner])});
        ++next[owner];
      } else if (round == 0 && cut.chunks[owner] == 0 && owner == cut.checker) {
        chunks.push_back({number, true, 0, 0});
      }
    }
  }
  return chunks;
}

}  // namespace bps
