// Tests which memory of the ring segments get, and which earlier segments they wait for.
#include "src/cuda/staging/copy_ring.h"

#include <random>

#include "tests/unit/nccl/fake_gpu.h"

namespace bps::cuda {
namespace {

class CopyRingTest : public testing::Test {
 protected:
  static constexpr size_t kBytes = 1U << 20;
  std::unique_ptr<CopyRing> ring_ = std::move(CopyRing::create(nccl::fakeDevice(), kBytes, false)).value();
};

TEST_F(CopyRingTest, SegmentsFollowEachOtherAndWaitOnlyForTheMemoryTheyReuse) {
  const auto expect = [&](size_t bytes, uint64_t segment, size_t offset, uint64_t after) {
    const CopyRing::Room room = ring_->take(bytes, segment);
    EXPECT_EQ(room.offset, offset) << segment;
    EXPECT_EQ(room.after, after) << segment;
  };
  expect(400 << 10, 0, 0, 0);
  expect(400 << 10, 1, 400 << 10, 0);
  expect(200 << 10, 2, 800 << 10, 0);
  expect(100 << 10, 3, 0, 1);          // there is no room behind segment 2
  expect(300 << 10, 4, 100 << 10, 0);  // what segment 0 had, and segment 3 waits for segment 0
  expect(1, 5, 400 << 10, 2);
  expect(0, 6, (400 << 10) + 1, 0);
  expect(kBytes, 7, 0, 6);
}

// No segment may get memory of another segment that is not below `after`.
TEST_F(CopyRingTest, RandomSegmentsNeverOverlapSegmentsThatTheyDoNotWaitFor) {
  std::mt19937 random(7);
  struct Taken {
    size_t begin, end;
  };
  std::vector<Taken> taken;
  uint64_t free = 0;
  for (uint64_t segment = 0; segment < 20000; ++segment) {
    const size_t bytes = random() % (segment % 50 == 0 ? kBytes : kBytes / 5);
    const CopyRing::Room room = ring_->take(bytes, segment);
    ASSERT_LE(room.offset + bytes, kBytes);
    ASSERT_LE(room.after, segment);
    free = std::max(free, room.after);
    for (uint64_t other = free; other < segment; ++other)
      ASSERT_FALSE(bytes > 0 && taken[other].begin < room.offset + bytes && taken[other].end > room.offset)
          << segment << " overlaps " << other;
    taken.push_back({room.offset, room.offset + bytes});
  }
}

}  // namespace
}  // namespace bps::cuda
