#include "src/cuda/staging/segments.h"

#include <map>

#include "src/base/memory.h"

namespace bps {
namespace {

constexpr size_t kRunAlignment = 64;  // the size of a cache line

// Adds the chunks from `begin` to `end` - 1 as a segment.
void addSegment(SegmentPlan& plan, std::span<const ChunkRef> chunks, size_t begin, size_t end) {
  Segment segment;
  std::map<uint32_t, size_t> lastRun;  // by owner
  std::vector<size_t> runOf;
  for (const ChunkRef& chunk : chunks.subspan(begin, end - begin)) {
    const auto known = lastRun.find(chunk.owner);
    const bool adjacent = known != lastRun.end() &&
                          segment.runs[known->second].offset + segment.runs[known->second].bytes == chunk.offset;
    if (!adjacent) {
      lastRun[chunk.owner] = segment.runs.size();
      segment.runs.push_back({chunk.offset, 0, 0, chunk.onGpu});
    }
    runOf.push_back(lastRun[chunk.owner]);
    plan.places.push_back({static_cast<uint32_t>(plan.segments.size()), segment.runs[runOf.back()].bytes});
    segment.runs[runOf.back()].bytes += chunk.bytes;
  }
  for (Segment::Run& run : segment.runs) {
    run.place = segment.bytes;
    segment.bytes += roundUp(run.bytes, kRunAlignment);
  }
  for (size_t i = begin; i < end; ++i) plan.places[i].place += segment.runs[runOf[i - begin]].place;
  segment.chunks = static_cast<uint32_t>(end - begin);
  plan.segments.push_back(std::move(segment));
}

}  // namespace

SegmentPlan planSegments(std::span<const ChunkRef> chunks, size_t targetBytes) {
  SegmentPlan plan;
  size_t begin = 0, bytes = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    bytes += chunks[i].bytes;
    if (bytes < targetBytes && i + 1 < chunks.size()) continue;
    addSegment(plan, chunks, begin, i + 1);
    begin = i + 1;
    bytes = 0;
  }
  return plan;
}

}  // namespace bps
