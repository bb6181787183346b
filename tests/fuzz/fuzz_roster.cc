// Fuzzes the decoder of rosters, which ranks receive from a hub. A roster that the decoder accepts must be consistent
// and must encode to the same bytes.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "src/wire/roster.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto decoded = bps::decodeRoster({data, size});
  if (!decoded.ok()) return 0;
  const bps::Roster roster = std::move(decoded).value();
  const bps::Blob again = bps::encode(roster);
  if (!std::equal(again.begin(), again.end(), data, data + size)) std::abort();
  for (size_t e = 0; e < roster.endpoints(); ++e)
    if (roster.endpointName(e).empty()) std::abort();
  for (const bps::RankEntry& rank : roster.ranks)
    if (rank.machine >= roster.machines.size()) std::abort();
  return 0;
}
