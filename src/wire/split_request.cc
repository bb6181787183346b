#include "src/wire/split_request.h"

#include <algorithm>

namespace bps {

Result<std::vector<uint32_t>> splitGroup(const std::vector<Blob>& requests, int color, const Roster& roster) {
  std::vector<std::pair<int, uint32_t>> found;  // key, rank
  for (uint32_t rank = 0; rank < requests.size(); ++rank) {
    WireReader reader(requests[rank]);
    const auto itsColor = reader.get<int>(), itsKey = reader.get<int>();
    if (Status read = reader.finish("its split request"); !read.ok())
      return std::move(read).within(roster.rankName(rank));
    if (itsColor == color) found.emplace_back(itsKey, rank);
  }
  std::sort(found.begin(), found.end());
  std::vector<uint32_t> group;
  group.reserve(found.size());
  for (const auto& [key, rank] : found) group.push_back(rank);
  return group;
}

}  // namespace bps
