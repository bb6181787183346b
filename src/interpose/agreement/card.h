// What the ranks of an NCCL communicator show each other, and what follows from it: pure, and the same on all ranks.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/status.h"

namespace bps::interpose {

inline constexpr size_t kNever = SIZE_MAX;  // no call is as large

// What a rank shows first.
struct Card {
  static constexpr uint32_t kVersion = 2;
  static constexpr size_t kBytes = 256;
  uint32_t version = kVersion;
  uint64_t machine = 0;  // hash of its host id
  bool able = true;      // false: `why`
  bool hasServers = false;
  uint64_t leastBytes = Bytes::kMeasured;  // BPS_NCCL_MIN_BYTES
  uint64_t room = 0;                       // bytes of device memory that measuring may use
  uint64_t team = 0;                       // hash of what its GPU shares with others, see Teams; 0: none
  bool anyOrder = false;                   // BPS_NCCL_LOCAL=any
  std::string why;

  std::vector<uint8_t> bytes() const;
  static Result<Card> parse(std::span<const uint8_t> bytes);
};

// What follows from all cards, the same on all ranks.
struct Conclusion {
  bool join = false;
  bool measure = false;
  size_t leastBytes = 0;
  size_t room = 0;
  size_t machines = 0;
  std::string reason;
};
Conclusion conclude(std::span<const Card> cards);

// Both libraries' times at growing sizes, of the slowest rank.
struct Timing {
  size_t bytes;
  double nccl, bps;
};
// The size from which on bps was always quicker, or kNever.
size_t crossOver(std::span<const Timing> timings);

// Teams: ranks of one machine, or under one of its switches, that combine their buffers by NCCL, on their GPUs, before
// and after bps all-reduces. Every team cuts a buffer alike, so that the owners of one part, one in each team, are a
// communicator of bps.
struct Teams {
  std::vector<int> leads;  // by rank: the lowest rank of its team
  int owners = 0;          // the first ranks of every team own a part each; 0: there are no teams, as `why` says
  bool anyOrder = false;   // of NCCL's sum; else calls whose bits would depend on it are not for teams
  std::string why;

  // The place of a rank in its team, and how many there are.
  int placeOf(int rank) const;
  int sizeOf(int rank) const;
  // "1, 3": one in each team.
  std::string ownersOf(int part) const;
};

Teams teamsOf(std::span<const Card> cards);

}  // namespace bps::interpose
