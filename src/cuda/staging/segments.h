// Segments: the parts of a call that are copied together between the device and staging memory. A segment consists of
// consecutive chunks of the call (collective.h), so it is complete in staging memory when its first chunks are sent.
// The chunks of one owner within a segment are adjacent in the buffer: they are one run, which takes one copy.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "src/comm/call/collective.h"

namespace bps {

struct Segment {
  struct Run {
    size_t offset = 0, bytes = 0;  // in the buffer of the call
    size_t place = 0;              // offset in the memory of the segment
    bool onGpu = false;            // staged in memory of the GPU (ChunkRef::onGpu)
  };
  std::vector<Run> runs;
  size_t bytes = 0;     // of staging memory
  uint32_t chunks = 0;  // number of chunks
};

struct SegmentPlan {
  struct ChunkPlace {
    uint32_t segment = 0;
    size_t place = 0;  // offset in the memory of the segment
  };
  std::vector<Segment> segments;   // at least one
  std::vector<ChunkPlace> places;  // of each chunk
};

// Divides the chunks into segments of at least `targetBytes`, except for the last one. A segment has less than
// `targetBytes` and one chunk more.
SegmentPlan planSegments(std::span<const ChunkRef> chunks, size_t targetBytes);

}  // namespace bps
