// Tests LocalLane, which offers its chunks to the summation service in the same process. The test acts as the other
// machine.
#include <gtest/gtest.h>

#include "src/comm/lanes/lane.h"
#include "src/service/sum_service.h"
#include "tests/unit/comm/lanes/fake_buffers.h"
#include "tests/unit/net/fake/fake_net.h"

namespace bps::test {
namespace {

using Message = FakeLink::Message;

class LocalLaneTest : public testing::Test {
 protected:
  static constexpr size_t kDepth = 2, kChunkBytes = 16;

  LocalLaneTest() {
    FakeNet::End push = FakeNet::endOf(adapter_, false), answer = FakeNet::endOf(adapter_, true);
    pushes_ = push.connection;
    answers_ = answer.connection;
    std::vector<SumService::Lane> lanes(2);
    lanes[1] = {std::move(push.comm), std::move(answer.comm)};
    ServiceSpec spec;
    spec.machines = 2;
    spec.local = 0;
    spec.depth = kDepth;
    spec.maxChunkBytes = 64;
    spec.ranks = 2;
    spec.nameOf = [](size_t machine) { return "machine " + std::to_string(machine); };
    service_ = std::move(SumService::create(std::move(spec), std::move(lanes))).value();
    lane_ = std::make_unique<LocalLane>(buffers_, *service_);
  }
  void submit(size_t chunks, FakeBuffers::Options options) {
    Collective& call = buffers_.add(chunks, kChunkBytes, options);
    call.call.type = 1;  // uint8
    for (size_t i = 0; i < chunks; ++i) lane_->submit(call, i);
  }
  void step() {
    for (int turn = 0; turn < 5; ++turn) {
      ASSERT_TRUE(lane_->step(lane_->oldestRound()).ok());
      const Result<bool> served = service_->step();
      ASSERT_TRUE(served.ok()) << served.error().message();
    }
  }
  // Sends the other machine's contribution to a chunk, whose bytes have the value 10.
  void push(size_t chunk) {
    const Collective& call = buffers_.call(0);
    DataHeader header;
    header.sequence = DataHeader::sequenceForChunk(chunk);
    header.first = call.chunks[chunk].round == 0;
    header.call = call.call;
    DataHeaderBytes encoded;
    const size_t bytes = encode(header, encoded);
    pushes_->there.deliver(Message(encoded.begin(), encoded.begin() + bytes));
    pushes_->there.deliver(Message(kChunkBytes, 10));
  }
  void takeAnswer() {
    answers_->there.take();
    answers_->there.take();
  }

  FakeBuffers buffers_;
  std::shared_ptr<FakeNet> adapter_ = std::make_shared<FakeNet>();
  std::shared_ptr<FakeConnection> pushes_, answers_;
  std::unique_ptr<SumService> service_;
  std::unique_ptr<LocalLane> lane_;
};

TEST_F(LocalLaneTest, AChunkIsFinishedWhenItsSumIsInItsTarget) {
  submit(2, {});
  step();
  EXPECT_TRUE(buffers_.finishedChunks().empty());
  push(0);
  step();
  EXPECT_EQ(buffers_.finishedChunks(), (std::vector<size_t>{0}));
  EXPECT_EQ(buffers_.target(0, 0), Message(kChunkBytes, 1 + 10));
  EXPECT_FALSE(lane_->idle());
  push(1);
  step();
  EXPECT_EQ(buffers_.finishedChunks(), (std::vector<size_t>{0, 1}));
  EXPECT_TRUE(lane_->idle());
}

TEST_F(LocalLaneTest, OffersNoMoreChunksThanTheServiceTakes) {
  submit(5, {});
  step();
  EXPECT_FALSE(service_->canOffer());
  push(0);
  for (int turn = 0; turn < 5 && service_->bytesSummed() == 0; ++turn) ASSERT_TRUE(service_->step().ok());
  EXPECT_TRUE(service_->canOffer()) << "there were no more than the service takes";
  for (size_t chunk = 0; chunk < 5; ++chunk) {
    if (chunk > 0) push(chunk);
    step();
    takeAnswer();
  }
  step();
  EXPECT_EQ(buffers_.finishedChunks().size(), 5U);
  EXPECT_TRUE(lane_->idle());
}

TEST_F(LocalLaneTest, AChunkThatIsNotReadyIsNotOffered) {
  buffers_.readyBelow = 0;
  submit(1, {});
  step();
  push(0);
  step();
  EXPECT_FALSE(lane_->idle());
  EXPECT_TRUE(buffers_.finishedChunks().empty());
  buffers_.readyBelow = 1;
  step();
  EXPECT_EQ(buffers_.finishedChunks().size(), 1U);
}

TEST_F(LocalLaneTest, TakesNoGpuMemory) {
  EXPECT_EQ(lane_->registerGpuRegion({}, {}, Deadline::never()).message(),
            std::string("the CPU of this machine sums the chunk"));
}

}  // namespace
}  // namespace bps::test
