// A RemoteLane keeps the owner's window, believes no answer that is not the one due, and keeps a contribution until its
// sum has come. The test plays the owner.
#include "src/comm/lanes/lane.h"

#include <chrono>
#include <map>
#include <numeric>
#include <thread>

#include "src/base/checksum/crc32c.h"
#include "tests/unit/comm/lanes/fake_buffers.h"
#include "tests/unit/net/fake/fake_net.h"

namespace bps::test {
namespace {

using namespace std::chrono_literals;
using Message = FakeLink::Message;

class RemoteLaneTest : public testing::Test {
 protected:
  static constexpr size_t kDepth = 4, kMaxChunkBytes = 64U << 10, kChunkBytes = 16;

  void SetUp() override { make(false); }
  void make(bool checksum) {
    adapter_ = std::make_shared<FakeNet>(std::make_shared<FakeWire>(), FakeNet::Options{.takesGpuMemory = true});
    FakeNet::End push = FakeNet::endOf(adapter_, true), answer = FakeNet::endOf(adapter_, false);
    pushes_ = push.connection;
    answers_ = answer.connection;
    net::PeerConnections connections;
    connections.pushOut = std::move(push.comm);
    connections.answerIn = std::move(answer.comm);
    lane_ = std::move(RemoteLane::create(buffers_, {kDepth, kMaxChunkBytes, checksum}, std::move(connections))).value();
  }
  void submit(size_t chunks, FakeBuffers::Options options = {}) {
    Collective& call = buffers_.add(chunks, kChunkBytes, options);
    for (size_t i = 0; i < chunks; ++i) lane_->submit(call, i);
  }
  void step(int turns = 20) {
    for (; turns > 0; --turns) {
      const Result<bool> moved = lane_->step();
      ASSERT_TRUE(moved.ok()) << moved.error().message();
    }
  }
  std::string errorOfStep() {
    for (int turn = 0; turn < 3; ++turn)
      if (const Result<bool> moved = lane_->step(); !moved.ok()) return moved.error().message();
    return "";
  }
  // The owner receives the next chunk.
  std::pair<DataHeader, Message> takePush() {
    const Message header = pushes_->there.take();
    const Message payload = pushes_->there.take();
    Result<DataHeader> decoded = decodeDataHeader(header);
    EXPECT_TRUE(decoded.ok());
    return {decoded.ok() ? std::move(decoded).value() : DataHeader(), payload};
  }
  void takePushes(size_t chunks) {
    for (; chunks > 0; --chunks) takePush();
  }
  void answerWith(const DataHeader& header, const Message& payload) {
    DataHeaderBytes encoded;
    const size_t bytes = encode(header, encoded);
    answers_->there.deliver(Message(encoded.begin(), encoded.begin() + bytes));
    answers_->there.deliver(payload);
  }
  static DataHeader headerOf(uint64_t chunk) {
    DataHeader header;
    header.sequence = DataHeader::sequenceForChunk(chunk);
    return header;
  }
  // `sum`: what the checksum is of.
  static DataHeader checkedHeaderOf(uint64_t chunk, const Message& sum) {
    DataHeader header = headerOf(chunk);
    header.payload = crc32c(sum.data(), sum.size());
    return header;
  }
  void answer(uint64_t chunk) { answerWith(headerOf(chunk), sumOf(chunk)); }
  static Message sumOf(uint64_t chunk) { return Message(kChunkBytes, static_cast<uint8_t>(100 + chunk)); }

  FakeBuffers buffers_;
  std::shared_ptr<FakeNet> adapter_;
  std::shared_ptr<FakeConnection> pushes_, answers_;
  std::unique_ptr<Lane> lane_;
};

TEST_F(RemoteLaneTest, SendsEveryChunkInOrderAndTheCallWithItsFirst) {
  submit(2);
  step();
  for (uint8_t i = 0; i < 2; ++i) {
    const auto [header, payload] = takePush();
    EXPECT_EQ(header.sequence, i);
    EXPECT_EQ(header.first, i == 0);
    EXPECT_EQ(payload, buffers_.source(0, i));
    EXPECT_EQ(header.call.count, i == 0 ? buffers_.call(0).call.count : 0);
  }
}

TEST_F(RemoteLaneTest, AChunkIsFinishedWhenItsSumIsInItsTarget) {
  submit(2);
  step();
  takePushes(2);
  step();
  EXPECT_TRUE(buffers_.finishedChunks().empty());
  answer(0);
  step();
  EXPECT_EQ(buffers_.finishedChunks(), (std::vector<size_t>{0}));
  EXPECT_EQ(buffers_.target(0, 0), sumOf(0));
  EXPECT_FALSE(lane_->idle());
  answer(1);
  step();
  EXPECT_EQ(buffers_.finishedChunks(), (std::vector<size_t>{0, 1}));
  EXPECT_TRUE(lane_->idle());
}

TEST_F(RemoteLaneTest, NeverHasMoreChunksInFlightThanItsDepth) {
  submit(10, {.window = 100});
  step();
  size_t taken = 0;
  for (; pushes_->there.sendsInFlight() > 0; ++taken, step()) takePush();
  EXPECT_EQ(taken, kDepth);
  for (uint64_t chunk = 0; chunk < 10 - kDepth; ++chunk) {
    answer(chunk);
    step();
    EXPECT_EQ(pushes_->there.sendsInFlight(), 2U) << "one answer lets one chunk go";
    takePush();
    step();
  }
}

TEST_F(RemoteLaneTest, TheCallsWindowLimitsItsChunksInFlight) {
  submit(10, {.window = 2});
  step();
  EXPECT_EQ(pushes_->there.sendsInFlight(), 2U * 2);
}

TEST_F(RemoteLaneTest, AnAnsweredChunkStaysInFlightUntilItHasBeenSent) {
  submit(1);
  step();
  answer(0);
  step();
  EXPECT_TRUE(buffers_.finishedChunks().empty()) << "the transport still reads the contribution";
  takePush();
  step();
  EXPECT_EQ(buffers_.finishedChunks().size(), 1U);
}

TEST_F(RemoteLaneTest, AChunkThatIsNotReadyHoldsUpThoseBehindIt) {
  buffers_.readyBelow = 1;
  submit(3);
  step();
  EXPECT_EQ(pushes_->there.sendsInFlight(), 2U);
  buffers_.readyBelow = 3;
  step();
  EXPECT_EQ(pushes_->there.sendsInFlight(), 6U);
}

TEST_F(RemoteLaneTest, AnAnswerOutOfSequenceFails) {
  submit(2);
  step();
  takePushes(2);
  answerWith(headerOf(1), sumOf(0));
  EXPECT_EQ(errorOfStep(), "answer 1 of 16 bytes came where answer 0 (modulo 65536) to call #7, of 16 bytes, was due");
  EXPECT_TRUE(buffers_.finishedChunks().empty());
}

TEST_F(RemoteLaneTest, AnAnswerOfAWrongSizeFails) {
  submit(1);
  step();
  takePush();
  answerWith({}, Message(kChunkBytes - 4));
  EXPECT_EQ(errorOfStep(), "answer 0 of 12 bytes came where answer 0 (modulo 65536) to call #7, of 16 bytes, was due");
}

TEST_F(RemoteLaneTest, AnAnswerThatCarriesACallFails) {
  submit(1);
  step();
  takePush();
  DataHeader header = headerOf(0);
  header.first = true;
  header.call = buffers_.call(0).call;
  answerWith(header, sumOf(0));
  EXPECT_EQ(errorOfStep().substr(0, 23), "answer 0 with a call of");
}

TEST_F(RemoteLaneTest, AnAnswerWithADamagedHeaderFails) {
  submit(1);
  step();
  takePush();
  answers_->there.deliver(Message(kDataShortHeaderBytes, 0x55));
  answers_->there.deliver(sumOf(0));
  EXPECT_NE(errorOfStep(), "");
  EXPECT_TRUE(buffers_.finishedChunks().empty());
}

TEST_F(RemoteLaneTest, EveryChunkHasAChecksumAndAnAnswerWithAWrongOneFails) {
  make(true);
  submit(2);
  step();
  const auto [header, payload] = takePush();
  EXPECT_EQ(header.payload, crc32c(payload.data(), payload.size()));
  takePush();
  const Message sum = sumOf(0);
  answerWith(checkedHeaderOf(0, sum), sum);
  step();
  EXPECT_EQ(buffers_.finishedChunks().size(), 1U);
  answerWith(checkedHeaderOf(1, sum), sumOf(1));
  EXPECT_EQ(errorOfStep().substr(0, 42), "the data is corrupt: chunk 1, 16 bytes of ");
  EXPECT_EQ(buffers_.finishedChunks().size(), 1U);
}

TEST_F(RemoteLaneTest, AnInPlaceContributionStaysWholeUntilItsWholeSumHasCome) {
  make(true);
  submit(2, {.inPlace = true});
  step();
  takePushes(2);
  const Message contribution = buffers_.source(0, 0), sum = sumOf(0);
  DataHeaderBytes encoded;
  const size_t bytes = encode(checkedHeaderOf(0, sum), encoded);
  answers_->there.deliver(Message(encoded.begin(), encoded.begin() + bytes));
  step();
  EXPECT_EQ(buffers_.target(0, 0), contribution) << "only the header has come";
  answers_->there.deliver(sum);
  EXPECT_EQ(buffers_.target(0, 0), contribution) << "the transport received the sum beside the contribution";
  step();
  EXPECT_EQ(buffers_.target(0, 0), sum);

  const Message second = buffers_.source(0, 1);
  answerWith(checkedHeaderOf(1, second), sum);
  EXPECT_NE(errorOfStep(), "");
  EXPECT_EQ(buffers_.target(0, 1), second) << "a damaged sum does not replace the contribution";
}

TEST_F(RemoteLaneTest, AChunkOfNoBytesIsSentAndAnswered) {
  Collective& call = buffers_.add(1, 0, {});
  lane_->submit(call, 0);
  step();
  EXPECT_TRUE(takePush().second.empty());
  answerWith({}, {});
  step();
  EXPECT_TRUE(lane_->idle());
}

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

TEST_F(RemoteLaneTest, AFailedLaneStaysFailedAndMovesNothing) {
  submit(3);
  step();
  takePushes(3);
  answerWith(headerOf(9), sumOf(0));
  const std::string first = errorOfStep();
  ASSERT_NE(first, "");
  submit(1);
  answer(1);
  answer(2);
  for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(errorOfStep(), first);
  EXPECT_TRUE(buffers_.finishedChunks().empty());
  EXPECT_EQ(pushes_->there.sendsInFlight(), 0U);
}

TEST_F(RemoteLaneTest, AnswersThatCameBeforeTheConnectionBrokeStillCount) {
  submit(2);
  step();
  takePushes(2);
  answer(0);
  answers_->there.closed = true;
  EXPECT_EQ(errorOfStep(), "the peer has closed");
  EXPECT_EQ(buffers_.finishedChunks(), (std::vector<size_t>{0}));
  EXPECT_EQ(errorOfStep(), "the peer has closed");
}

TEST_F(RemoteLaneTest, ABrokenPushConnectionFailsTheLane) {
  submit(1);
  step();
  pushes_->there.failure = "no route";
  EXPECT_EQ(errorOfStep(), "no route");
}

TEST_F(RemoteLaneTest, ReportsTheCallThatHasWaitedForTheTimeOut) {
  EXPECT_EQ(lane_->checkWait(0ms), std::nullopt) << "nothing is in flight";
  submit(2);
  step();
  EXPECT_EQ(lane_->checkWait(1h), std::nullopt);
  takePushes(2);
  answer(0);
  step();
  EXPECT_EQ(lane_->checkWait(0ms), 7U) << "progress starts the time-out again, and this one is short";
  answer(1);
  step();
  EXPECT_EQ(lane_->checkWait(0ms), std::nullopt);
}

TEST_F(RemoteLaneTest, ProgressStartsTheTimeOutAgain) {
  submit(2);
  step();
  takePushes(2);
  EXPECT_EQ(lane_->checkWait(50ms), std::nullopt);
  std::this_thread::sleep_for(60ms);
  answer(0);
  step();
  EXPECT_EQ(lane_->checkWait(1h), std::nullopt) << "the second chunk has only begun to wait";
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
