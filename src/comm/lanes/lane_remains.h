// LaneRemains: the chunks and the kept sums of a lane to a lost server. The lane that replaces it takes them over
// (recovery.h).
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "src/comm/call/collective.h"

namespace bps {

struct SubmittedChunk {
  Collective* call = nullptr;
  size_t index = 0;
};

// The sum of a chunk that is retired on this machine.
struct KeptSum {
  CallInfo call;
  std::vector<uint8_t> bytes;
};

struct LaneRemains {
  uint64_t retired = 0;               // number of retired chunks
  std::vector<KeptSum> sums;          // of the last chunks that are retired, in order
  std::deque<SubmittedChunk> chunks;  // the chunks that are not retired, in order
};

}  // namespace bps
