// Tests how a RemoteLane carries chunks in GPU memory.
#include <chrono>

#include "tests/unit/comm/lanes/remote_lane_fixture.h"

namespace bps::test {
namespace {

using namespace std::chrono_literals;

class GpuChunkTest : public RemoteLaneTest {
 protected:
  net::GpuRegion region() { return {buffers_.memory(), FakeBuffers::kMemoryBytes, -1}; }
  static constexpr net::GpuRegistrationModes kModes{.byAddress = true};
};

TEST_F(GpuChunkTest, AChunkOnAGpuIsFinishedAfterTheFlushOfItsSum) {
  ASSERT_TRUE(lane_->registerGpuRegion(region(), kModes, Deadline::in(1s)).ok());
  const size_t flushes = answers_->there.flushesStarted;
  answers_->there.flushHeld = true;
  submit(1, {.onGpu = true});
  step();
  takePush();
  answer(0);
  step();
  EXPECT_EQ(answers_->there.flushesStarted, flushes + 1) << "one flush for each answer";
  EXPECT_TRUE(buffers_.finishedChunks().empty());
  answers_->there.flushHeld = false;
  step();
  EXPECT_EQ(buffers_.finishedChunks().size(), 1U);
}

TEST_F(GpuChunkTest, MemoryWhoseFlushDoesNotEndIsRefusedAndTheLaneStaysUsable) {
  answers_->there.flushHeld = true;
  const Status refused = lane_->registerGpuRegion(region(), kModes, Deadline::in(1ms));
  EXPECT_EQ(refused.message(), std::string("a flush of GPU memory does not end"));
  answers_->there.flushHeld = false;
  submit(1);
  step();
  takePush();
  answer(0);
  step();
  EXPECT_TRUE(lane_->idle());
}

TEST_F(GpuChunkTest, AConnectionForHostMemoryRefusesTheRegion) {
  EXPECT_EQ(lane_->registerGpuRegion(region(), {}, Deadline::in(1s)).message(),
            std::string("the connection takes host memory only"));
}

}  // namespace
}  // namespace bps::test
