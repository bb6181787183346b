// Tests the data planes of two machines, which connect over a fake net plugin in memory. The data planes must sum
// calls, and must name a peer that is missing or broken.
#include "src/comm/lanes/data_plane.h"

#include <thread>

#include "tests/unit/comm/lanes/fake_buffers.h"
#include "tests/unit/comm/lanes/two_machines.h"

namespace bps::test {
namespace {

class DataPlaneTest : public testing::Test {
 protected:
  // Submits a call with one chunk for each owner to the data plane of `rank`.
  void submit(size_t rank) {
    Collective& call = buffers_[rank].add(2, 64, {});
    call.call.type = 1;  // uint8
    for (uint32_t owner = 0; owner < 2; ++owner) {
      call.chunks[owner].owner = owner;
      call.chunks[owner].round = 0;
    }
    planes_[rank]->submit(call);
  }
  void step(int turns = 20) {
    for (; turns > 0; --turns)
      for (const auto& plane : planes_) {
        const Result<bool> moved = plane->step();
        ASSERT_TRUE(moved.ok()) << moved.error().message();
      }
  }

  FakeBuffers buffers_[2];
  TwoMachines machines_{{&buffers_[0], &buffers_[1]}};
  std::unique_ptr<DataPlane> (&planes_)[2] = machines_.planes;
};

TEST_F(DataPlaneTest, EveryChunkIsSummedByItsOwnerAndReachesAllMachines) {
  machines_.connectAll();
  for (size_t rank = 0; rank < 2; ++rank) submit(rank);
  EXPECT_FALSE(planes_[0]->drained());
  step();
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(buffers_[rank].call(0).remaining, 0U);
    for (uint8_t chunk = 0; chunk < 2; ++chunk)
      EXPECT_EQ(buffers_[rank].target(0, chunk), FakeBuffers::Bytes(64, static_cast<uint8_t>(2 * (chunk + 1))));
    EXPECT_TRUE(planes_[rank]->drained());
  }
}

TEST_F(DataPlaneTest, NumbersTheRoundsOfAllCalls) {
  machines_.connectAll();
  for (int i = 0; i < 3; ++i) submit(0);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(buffers_[0].call(i).firstRound, i);
}

TEST_F(DataPlaneTest, HasAConnectionEachWayForTheOtherMachinesOwner) {
  machines_.connectAll();
  size_t comms = 0;
  planes_[0]->forEachComm([&](net::Comm&) { ++comms; });
  EXPECT_EQ(comms, 6U) << "pushes and answers, to the other's service and from it, and the exchange path";
}

TEST_F(DataPlaneTest, ABrokenConnectionIsReportedWithItsEndpoint) {
  machines_.connectAll();
  for (size_t rank = 0; rank < 2; ++rank) submit(rank);
  planes_[1].reset();
  Result<bool> moved = planes_[0]->step();
  for (int turn = 0; turn < 5 && moved.ok(); ++turn) moved = planes_[0]->step();
  ASSERT_FALSE(moved.ok());
  EXPECT_EQ(planes_[0]->failedEndpoint(), 1U);
}

TEST_F(DataPlaneTest, AMissingCallOfTheOtherMachineIsReportedAfterTheTimeOut) {
  machines_.connectAll();
  submit(0);
  const auto start = Deadline::Clock::now();
  std::optional<EndpointWait> wait;
  while (!wait && Deadline::Clock::now() - start < 5s) {
    step(1);
    wait = planes_[0]->checkWait();
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_TRUE(wait);
  EXPECT_EQ(wait->call, 7U);
  EXPECT_EQ(wait->endpoint, 1U);
  EXPECT_GE(Deadline::Clock::now() - start, 1s);
  submit(1);
  step();
  EXPECT_FALSE(planes_[0]->checkWait());
}

TEST_F(DataPlaneTest, AMachineThatDoesNotConnectIsNamedWhenTheDeadlinePasses) {
  const Status outcome = machines_.connectWithoutPeer([] { return false; }, Deadline::in(100ms));
  EXPECT_EQ(outcome.code(), Code::kRemote);
  EXPECT_EQ(outcome.message(), "no data connection with " + machines_.control(0).roster().rankName(1) + " within 2 s");
}

TEST_F(DataPlaneTest, ConnectingEndsWhenItIsCancelled) {
  const Status outcome = machines_.connectWithoutPeer([] { return true; }, soon());
  EXPECT_EQ(outcome.message(), std::string("aborted while connecting"));
}

}  // namespace
}  // namespace bps::test
