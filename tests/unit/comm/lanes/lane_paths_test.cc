// Tests how a RemoteLane sends chunks of the exchange path and chunks in GPU memory.
#include <chrono>

#include "tests/unit/comm/lanes/remote_lane_fixture.h"

namespace bps::test {
namespace {

using namespace std::chrono_literals;

TEST_F(RemoteLaneTest, ASmallExchangePathChunkIsCopiedWhenItIsAdmitted) {
  submit(1, {.exchangePath = true});
  ChunkRef& chunk = buffers_.call(0).chunks[0];
  const Message contribution = buffers_.source(0, 0);
  step(1);
  EXPECT_EQ(chunk.unsent, 0U) << "nothing needs the buffer any more";
  buffers_.overwriteSource(0, 0);
  const auto [header, payload] = takePush();
  EXPECT_TRUE(header.usesExchangePath);
  EXPECT_EQ(payload, contribution);
}

TEST_F(RemoteLaneTest, AnExchangePathChunkRetiresWhenItIsSentAndAwaitsNoAnswer) {
  submit(1, {.exchangePath = true});
  step();
  EXPECT_FALSE(lane_->idle());
  takePush();
  step();
  EXPECT_TRUE(lane_->idle());
  EXPECT_EQ(answers_->there.receivesInFlight(), 0U);
  EXPECT_TRUE(buffers_.finishedChunks().empty()) << "the sum comes from this machine's own service";
}

TEST_F(RemoteLaneTest, ALargeExchangePathChunkNeedsItsBufferUntilItIsSent) {
  Collective& call = buffers_.add(2, 32U << 10, {.exchangePath = true});
  lane_->submit(call, 0);
  step();
  EXPECT_EQ(call.chunks[0].unsent, 1U);
  takePush();
  step();
  EXPECT_EQ(call.chunks[0].unsent, 0U);
}

TEST_F(RemoteLaneTest, ExchangePathChunksStayThreeAheadOfTheirSums) {
  submit(8, {.window = 100, .exchangePath = true});
  step();
  const auto takeAll = [&] {
    size_t taken = 0;
    for (; pushes_->there.sendsInFlight() > 0; ++taken, step()) takePush();
    return taken;
  };
  EXPECT_EQ(takeAll(), 3U);
  --buffers_.call(0).remaining;
  step();
  EXPECT_EQ(takeAll(), 1U);
}

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
