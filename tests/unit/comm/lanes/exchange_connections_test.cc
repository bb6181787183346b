// Tests how one machine of three sends, receives and checks the messages of the exchange path. The test acts as the
// other two machines: machine 0 sends to machine 2 and then to machine 1, and receives in the opposite directions.
#include <chrono>
#include <thread>

#include "src/base/checksum/crc32c.h"
#include "src/comm/lanes/exchange_path.h"
#include "tests/unit/comm/lanes/fake_buffers.h"
#include "tests/unit/net/fake/fake_net.h"

namespace bps::test {
namespace {

using namespace std::chrono_literals;
using Message = FakeLink::Message;

class ExchangeConnectionsTest : public testing::Test {
 protected:
  void SetUp() override { make(false); }
  void make(bool checksum) {
    path_.reset();
    std::vector<net::PeerConnections> connections(3);
    const auto add = [&](std::unique_ptr<net::Comm>& comm, bool sends) {
      FakeNet::End end = FakeNet::endOf(adapter_, sends);
      comm = std::move(end.comm);
      return end.connection;
    };
    to2_ = add(connections[2].exchangeOut, true);
    from1_ = add(connections[1].exchangeIn, false);
    to1_ = add(connections[1].exchangeOut, true);
    from2_ = add(connections[2].exchangeIn, false);
    ExchangeSpec spec;
    spec.machines = spec.ranks = 3;
    spec.maxChunkBytes = 64U << 10;
    spec.checksum = checksum;
    spec.summed.resize(3);
    spec.waitReportTime = 10ms;
    spec.nameOf = [](size_t machine) { return "machine " + std::to_string(machine); };
    path_ = std::move(ExchangePath::create(buffers_, std::move(spec), connections)).value();
  }
  Collective& submit(size_t chunks, size_t bytes, FakeBuffers::Options options = {}) {
    options.exchangePath = true;
    Collective& call = buffers_.add(chunks, bytes, options);
    call.call.type = 1;  // uint8
    path_->submit(call);
    return call;
  }
  void step(int turns = 10) {
    for (; turns > 0; --turns) {
      const Result<bool> moved = path_->step(0);
      ASSERT_TRUE(moved.ok()) << moved.error().message();
    }
  }
  // Steps the path until it fails, and returns the error. The path must blame `machine`.
  std::string errorOf(std::optional<size_t> machine) {
    for (int turn = 0; turn < 3; ++turn)
      if (const Result<bool> moved = path_->step(0); !moved.ok()) {
        EXPECT_EQ(path_->failedMachine(), machine);
        return moved.error().message();
      }
    return "";
  }
  // Returns the header message of chunk `chunk` with `blocks` contributions to the first call.
  Message headersOf(uint64_t chunk, size_t blocks = 1, bool first = true, std::optional<uint32_t> checksum = {}) {
    DataHeader header;
    header.sequence = DataHeader::sequenceForChunk(chunk);
    header.first = first;
    header.call = buffers_.call(0).call;
    header.payload = checksum;
    DataHeaderBytes encoded;
    const size_t size = encode(header, encoded);
    Message message;
    for (size_t i = 0; i < blocks; ++i) {
      message.push_back(static_cast<uint8_t>(size));
      message.insert(message.end(), encoded.begin(), encoded.begin() + static_cast<ptrdiff_t>(size));
    }
    return message;
  }
  static void deliver(const std::shared_ptr<FakeConnection>& from, const Message& headers, const Message& payload) {
    from->there.deliver(headers);
    from->there.deliver(payload);
  }
  // Takes a message and returns its payload.
  static Message takePayload(const std::shared_ptr<FakeConnection>& to) {
    to->there.take();
    return to->there.take();
  }

  FakeBuffers buffers_;
  std::shared_ptr<FakeNet> adapter_ = std::make_shared<FakeNet>();
  std::shared_ptr<FakeConnection> to2_, from1_, to1_, from2_;
  std::unique_ptr<ExchangePath> path_;
};

TEST_F(ExchangeConnectionsTest, TheLastStepSendsOnlyWhatTheReceiverLacks) {
  submit(1, 16);
  step();
  EXPECT_EQ(takePayload(to2_), Message(16, 1));
  EXPECT_EQ(to1_->there.sendsInFlight(), 0U) << "machine 1 gets it only in the second step";
  deliver(from1_, headersOf(0), Message(16, 10));
  step();
  EXPECT_EQ(takePayload(to1_), Message(16, 1)) << "machine 1 has the other contributions";
  EXPECT_EQ(buffers_.call(0).remaining, 1U);
  deliver(from2_, headersOf(0), Message(16, 20));
  step();
  EXPECT_EQ(buffers_.target(0, 0), Message(16, 31));
  EXPECT_EQ(buffers_.call(0).remaining, 0U);
}

TEST_F(ExchangeConnectionsTest, MessagesMayArriveInAnyOrderAndBeforeTheCall) {
  buffers_.add(1, 16, {.exchangePath = true}).call.type = 1;
  step();
  deliver(from2_, headersOf(0), Message(16, 20));
  step();
  deliver(from1_, headersOf(0), Message(16, 10));
  step();
  path_->submit(buffers_.call(0));
  step();
  EXPECT_EQ(buffers_.target(0, 0), Message(16, 31));
}

TEST_F(ExchangeConnectionsTest, IsIdleOnlyWhenPeersHaveTheirData) {
  submit(1, 16);
  step();
  deliver(from1_, headersOf(0), Message(16, 10));
  deliver(from2_, headersOf(0), Message(16, 20));
  step();
  EXPECT_EQ(buffers_.call(0).remaining, 0U) << "the call has ended";
  takePayload(to2_);
  step();
  EXPECT_FALSE(path_->idle()) << "machine 1 still waits for data";
  takePayload(to1_);
  step();
  EXPECT_TRUE(path_->idle());
}

TEST_F(ExchangeConnectionsTest, ASmallContributionIsCopied) {
  submit(1, 16);
  buffers_.overwriteSource(0, 0);
  EXPECT_EQ(takePayload(to2_), Message(16, 1));
}

TEST_F(ExchangeConnectionsTest, ALargeContributionIsKeptUntilItIsSent) {
  submit(1, 32U << 10);
  step();
  deliver(from1_, headersOf(0), Message(32U << 10, 10));
  deliver(from2_, headersOf(0), Message(32U << 10, 20));
  step();
  EXPECT_EQ(buffers_.target(0, 0), Message(32U << 10, 31)) << "the sum has a place of its own";
  EXPECT_EQ(buffers_.call(0).remaining, 1U);
  takePayload(to2_);
  step();
  EXPECT_EQ(buffers_.call(0).remaining, 0U);
}

TEST_F(ExchangeConnectionsTest, AnInPlaceSumIsNotWrittenBeforeItsContributionIsSent) {
  submit(2, 32U << 10, {.inPlace = true});
  step();
  deliver(from1_, headersOf(0), Message(32U << 10, 10));
  deliver(from2_, headersOf(0), Message(32U << 10, 20));
  step();
  EXPECT_EQ(buffers_.source(0, 0), Message(32U << 10, 1));
  EXPECT_EQ(takePayload(to2_), Message(32U << 10, 1));
  step();
  EXPECT_EQ(buffers_.target(0, 0), Message(32U << 10, 31));
}

TEST_F(ExchangeConnectionsTest, TheOnlyChunkOfAnInPlaceCallIsCopied) {
  submit(1, 32U << 10, {.inPlace = true});
  step();
  deliver(from1_, headersOf(0), Message(32U << 10, 10));
  deliver(from2_, headersOf(0), Message(32U << 10, 20));
  step();
  EXPECT_EQ(buffers_.target(0, 0), Message(32U << 10, 31));
  EXPECT_EQ(takePayload(to2_), Message(32U << 10, 1));
}

TEST_F(ExchangeConnectionsTest, AChunkThatIsNotReadyIsNotSent) {
  buffers_.readyBelow = 0;
  submit(1, 16);
  step();
  EXPECT_EQ(to2_->there.sendsInFlight(), 0U);
  buffers_.readyBelow = 1;
  step();
  EXPECT_EQ(takePayload(to2_), Message(16, 1));
}

TEST_F(ExchangeConnectionsTest, ChunksOfACallStayThreeAheadOfTheirSums) {
  submit(8, 16);
  step();
  const auto takeAll = [&] {
    size_t taken = 0;
    for (; to2_->there.sendsInFlight() > 0; ++taken, step()) takePayload(to2_);
    return taken;
  };
  EXPECT_EQ(takeAll(), 3U);
  deliver(from1_, headersOf(0), Message(16, 10));
  deliver(from2_, headersOf(0), Message(16, 20));
  step();
  takePayload(to1_);
  step();
  EXPECT_EQ(takeAll(), 1U);
}

TEST_F(ExchangeConnectionsTest, NoMoreCallsAreInFlightThanThereAreSlots) {
  for (int call = 0; call < 9; ++call) submit(1, 16);
  step();
  size_t taken = 0;
  for (; to2_->there.sendsInFlight() > 0; ++taken, step()) takePayload(to2_);
  EXPECT_EQ(taken, constants::kExchangeSlots);
}

TEST_F(ExchangeConnectionsTest, WaitsOnlyForMessagesOfItsOwnCalls) {
  const auto needed = [&] {
    std::vector<bool> each;
    path_->forEachComm([&](net::Comm& comm) { each.push_back(comm.needed()); });
    return std::pair<bool, bool>(each[1], each[3]);
  };
  step();
  EXPECT_EQ(needed(), std::pair(false, false));
  submit(1, 16);
  step();
  EXPECT_EQ(needed(), std::pair(true, true));
  deliver(from1_, headersOf(0), Message(16, 10));
  step();
  EXPECT_EQ(needed(), std::pair(false, true));
}

TEST_F(ExchangeConnectionsTest, AnInvalidMessageIsReportedWithItsSender) {
  buffers_.add(1, 16, {});
  Message truncated = headersOf(0), tooLong = headersOf(0), corrupt = headersOf(0);
  truncated.pop_back();
  tooLong.push_back(0);
  corrupt[9] ^= 1;
  for (const auto& [headers, error] : std::vector<std::pair<Message, std::string>>{
           {headersOf(1), "received chunk 1 instead of chunk 0 (modulo 65536)"},
           {headersOf(0, 1, false), "the first chunk has no call information"},
           {headersOf(0, 0), "the headers of 1 contributions are truncated"},
           {truncated, "the headers of 1 contributions are truncated"},
           {Message(1, 255), "the headers of 1 contributions are truncated"},
           {tooLong, "received 1 bytes after the headers of 1 contributions"},
           {corrupt, "the stream is corrupt: the checksum of a chunk header of 30 bytes is wrong"}})
    for (const size_t sender : {1, 2}) {
      make(false);
      buffers_.reset();
      submit(1, 16);
      step();
      deliver(sender == 1 ? from1_ : from2_, headers, Message(16, 10));
      EXPECT_EQ(errorOf(sender), error);
      step();  // the failure is reported only once
    }
}

TEST_F(ExchangeConnectionsTest, AContributionOfAnotherSizeIsAnError) {
  submit(1, 16);
  step();
  deliver(from1_, headersOf(0), Message(17, 10));
  EXPECT_EQ(errorOf({}), "machine 0 pushed 16 bytes of all-reduce #7 of 16 uint8, sum, but machine 1 pushed 17");
  EXPECT_FALSE(path_->step(0).ok()) << "nothing moves after this failure";
}

TEST_F(ExchangeConnectionsTest, ACallThatIsCutDifferentlyIsAnError) {
  submit(2, 16);
  step();
  deliver(from1_, headersOf(0), Message(16, 10));
  step();
  deliver(from1_, headersOf(1), Message(16, 10));
  EXPECT_EQ(errorOf({}), "machine 1 cut all-reduce #7 of 32 uint8, sum differently");
}

TEST_F(ExchangeConnectionsTest, TheSameCallOnTheLanesIsAnError) {
  const CallInfo call = buffers_.add(1, 16, {}).call;
  path_->submittedToLanes(call, 1);
  step();
  deliver(from1_, headersOf(0), Message(16, 10));
  EXPECT_EQ(errorOf({}), "machine 1 sent all-reduce #7 of 16 int8, sum on the exchange path, but machine 0 did not");
}

TEST_F(ExchangeConnectionsTest, AWrongChecksumIsReportedWithItsSender) {
  make(true);
  submit(1, 16);
  step();
  const Message payload(16, 10);
  deliver(from1_, headersOf(0, 1, true, crc32c(payload.data(), payload.size())), payload);
  step();
  deliver(from2_, headersOf(0, 1, true, 5), payload);
  const std::string error = errorOf(2);
  EXPECT_NE(error.find("the data is corrupt: chunk 0, 16 bytes of all-reduce #7"), std::string::npos) << error;
}

TEST_F(ExchangeConnectionsTest, ABrokenConnectionIsReportedOnceAndTheOthersStillMove) {
  submit(1, 16);
  step();
  from2_->there.failure = "broken";
  EXPECT_EQ(errorOf(2), "broken");
  deliver(from1_, headersOf(0), Message(16, 10));
  step();
  EXPECT_EQ(takePayload(to1_), Message(16, 1));
  to2_->there.failure = "broken too";
  EXPECT_EQ(errorOf(2), "broken too");
  from1_->there.failure = "all broken";
  EXPECT_EQ(errorOf(1), "all broken");
  step();
}

TEST_F(ExchangeConnectionsTest, ReportsTheMachineThatItWaitsFor) {
  submit(1, 16);
  step();
  EXPECT_FALSE(path_->checkWait());
  std::this_thread::sleep_for(15ms);
  std::optional<EndpointWait> wait = path_->checkWait();
  ASSERT_TRUE(wait);
  EXPECT_EQ(wait->call, 7U);
  EXPECT_EQ(wait->endpoint, 1U);
  deliver(from1_, headersOf(0), Message(16, 10));
  step();
  wait = path_->checkWait();
  ASSERT_TRUE(wait);
  EXPECT_EQ(wait->endpoint, 2U);
  deliver(from2_, headersOf(0), Message(16, 20));
  step();
  EXPECT_FALSE(path_->checkWait());
}

TEST_F(ExchangeConnectionsTest, WaitsForTheNeighbourThatDoesNotTakeTheContribution) {
  submit(2, 32U << 10, {.inPlace = true});
  step();
  deliver(from1_, headersOf(0), Message(32U << 10, 10));
  deliver(from2_, headersOf(0), Message(32U << 10, 20));
  step();
  path_->checkWait();
  std::this_thread::sleep_for(15ms);
  const std::optional<EndpointWait> wait = path_->checkWait();
  ASSERT_TRUE(wait);
  EXPECT_EQ(wait->endpoint, 2U);
}

}  // namespace
}  // namespace bps::test
