// Tests RemoteLane; the test acts as the owner. A lane must respect the owner's window and accept only the answer that
// is due next. A lane must keep a contribution until the answer arrives. A failed lane must stay failed.
#include <chrono>
#include <thread>

#include "tests/unit/comm/lanes/remote_lane_fixture.h"

namespace bps::test {
namespace {

using namespace std::chrono_literals;

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

TEST_F(RemoteLaneTest, StaysInStepWithTheSlowestLane) {
  Collective& call = buffers_.add(10, kChunkBytes, {.window = 2});
  call.firstRound = 100;
  for (size_t i = 0; i < 10; ++i) lane_->submit(call, i);
  const auto stepWith = [&](uint64_t oldestRound) {
    for (int turn = 0; turn < 20; ++turn) ASSERT_TRUE(lane_->step(oldestRound).ok());
  };
  stepWith(99);
  takePushes(2);
  answer(0);
  answer(1);
  stepWith(100);
  EXPECT_EQ(lane_->oldestRound(), 102U);
  EXPECT_EQ(pushes_->there.sendsInFlight(), 0U) << "another lane has not retired round 0";
  stepWith(101);
  EXPECT_EQ(pushes_->there.sendsInFlight(), 2U) << "round 2, but not round 3";
}

TEST_F(RemoteLaneTest, TheFirstRoundsOfACallDoNotWaitForTheCallBefore) {
  submit(2);
  Collective& next = buffers_.add(4, kChunkBytes, {.window = 4});
  next.firstRound = 2;
  for (size_t i = 0; i < 4; ++i) lane_->submit(next, i);
  for (int turn = 0; turn < 20; ++turn) ASSERT_TRUE(lane_->step(0).ok());
  size_t taken = 0;
  for (; pushes_->there.sendsInFlight() > 0; ++taken, step()) takePush();
  EXPECT_EQ(taken, kDepth);
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

}  // namespace
}  // namespace bps::test
