// Tests how the chunks of a call are grouped into segments and runs.
#include "src/cuda/staging/segments.h"

#include <gtest/gtest.h>

#include "src/plan/cutter.h"

namespace bps::test {
namespace {

// Checks what every plan must have: each byte of the call is in one run, and the place of each chunk is where its run
// puts its bytes.
void check(const std::vector<ChunkRef>& chunks, const SegmentPlan& plan) {
  ASSERT_EQ(plan.places.size(), chunks.size());
  std::vector<uint32_t> chunksOf(plan.segments.size());
  size_t copied = 0, bytes = 0;
  for (const Segment& segment : plan.segments) {
    size_t end = 0;
    for (const Segment::Run& run : segment.runs) {
      EXPECT_GE(run.place, end) << "runs overlap in the memory of the segment";
      EXPECT_EQ(run.place % 64, 0U);
      end = run.place + run.bytes;
      copied += run.bytes;
    }
    EXPECT_LE(end, segment.bytes);
  }
  uint32_t before = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const SegmentPlan::ChunkPlace& at = plan.places[i];
    bytes += chunks[i].bytes;
    EXPECT_GE(at.segment, before) << "segments are in the order of the chunks";
    before = at.segment;
    ++chunksOf[at.segment];
    bool found = false;
    for (const Segment::Run& run : plan.segments[at.segment].runs) {
      const bool inside =
          chunks[i].offset >= run.offset && chunks[i].offset + chunks[i].bytes <= run.offset + run.bytes;
      if (!inside || run.place + (chunks[i].offset - run.offset) != at.place) continue;
      found = true;
      EXPECT_EQ(run.onGpu, chunks[i].onGpu);
    }
    EXPECT_TRUE(found) << "chunk " << i;
  }
  EXPECT_EQ(copied, bytes);
  for (size_t i = 0; i < plan.segments.size(); ++i) EXPECT_EQ(plan.segments[i].chunks, chunksOf[i]);
}

std::vector<ChunkRef> chunksOf(size_t bytes, const CutLimits& limits) {
  Cutter cutter({3, 3, 0, 5}, limits);
  return makeChunks(cutter.next(bytes, 1), 1);
}

TEST(Segments, EveryByteIsCopiedOnce) {
  CutLimits limits;
  limits.singleOwnerBytes = 1000;
  for (const size_t bytes : {0U, 1U, 999U, 5000U, 70001U, 1U << 20, (5U << 20) + 3})
    for (const size_t target : {size_t{1}, size_t{100000}, size_t{1} << 20, SIZE_MAX}) {
      const std::vector<ChunkRef> chunks = chunksOf(bytes, limits);
      check(chunks, planSegments(chunks, target));
    }
}

TEST(Segments, ChunksOfAnOwnerInASegmentAreOneRun) {
  const std::vector<ChunkRef> chunks = chunksOf(8U << 20, {.targetChunkBytes = 64U << 10});
  const SegmentPlan plan = planSegments(chunks, 2U << 20);
  EXPECT_EQ(plan.segments.size(), 4U);
  for (const Segment& segment : plan.segments) EXPECT_LE(segment.runs.size(), 4U) << "three owners and the checker";
  EXPECT_EQ(planSegments(chunks, SIZE_MAX).segments.size(), 1U);
}

TEST(Segments, ACallOfNoElementsHasOneSegment) {
  const std::vector<ChunkRef> chunks = chunksOf(0, {});
  const SegmentPlan plan = planSegments(chunks, 1000);
  ASSERT_EQ(plan.segments.size(), 1U);
  EXPECT_EQ(plan.segments[0].chunks, 1U);
  EXPECT_EQ(plan.segments[0].bytes, 0U);
}

}  // namespace
}  // namespace bps::test
