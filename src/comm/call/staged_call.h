// StagedCall: where the chunks of a call on a CUDA stream are in staging memory (cuda/staging/copy_queue.h). Does not
// change after the call is submitted.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bps {

struct StagedCall {
  struct Place {
    uint8_t* contribution = nullptr;
    uint8_t* sum = nullptr;
    uint32_t segment = 0;  // of the call
  };
  uint64_t firstSegment = 0;        // the number of the call's segment 0 among all segments of the communicator
  std::vector<uint32_t> chunksOf;   // number of chunks of each segment
  std::vector<Place> places;        // of each chunk
  const uint8_t* scalar = nullptr;  // where the operation's scalar is after segment 0 is copied; null if there is none
};

}  // namespace bps
