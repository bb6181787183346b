// The data planes of two machines connect over a plugin in memory, sum calls and name the peer that is missing or
// broken.
#include "src/comm/lanes/data_plane.h"

#include <thread>

#include "tests/unit/comm/lanes/fake_buffers.h"
#include "tests/unit/control/cluster.h"
#include "tests/unit/net/fake/fake_net.h"

namespace bps::test {
namespace {

class DataPlaneTest : public testing::Test {
 protected:
  static constexpr double kTimeout = 1;

  void join() {
    cluster_.emplace(2, localEnv(kTimeout));
    cluster_->expectJoined();
    plan_ = std::move(JobPlan::make(cluster_->plane(0).roster())).value();
  }
  Result<std::unique_ptr<DataPlane>> connect(uint32_t rank, ControlPlane& control,
                                             const std::function<bool()>& cancelled, Deadline deadline) {
    const auto plugin = std::make_shared<net::Plugin>(std::make_shared<FakeNet>(wire_, FakeNet::Options{}));
    return DataPlane::connect({env_, control, plan_, rails_, {}, plugin, buffers_[rank], deadline, cancelled});
  }
  void connectAll() {
    join();
    cluster_->each([this](uint32_t rank, ControlPlane& control) {
      auto plane = connect(
          rank, control, [] { return false; }, soon());
      ASSERT_TRUE(plane.ok()) << plane.error().message();
      planes_[rank] = std::move(plane).value();
    });
  }
  // A call with one chunk for each owner.
  void submit(size_t rank) {
    Collective& call = buffers_[rank].add(2, 64, {});
    call.call.type = 1;  // uint8
    for (uint32_t owner = 0; owner < 2; ++owner) {
      call.chunks[owner].owner = owner;
      call.chunks[owner].first = true;
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

  Env env_ = localEnv(kTimeout);
  Rails rails_;
  JobPlan plan_;
  std::shared_ptr<FakeWire> wire_ = std::make_shared<FakeWire>();
  FakeBuffers buffers_[2];
  std::optional<Cluster> cluster_;
  std::unique_ptr<DataPlane> planes_[2];
};

TEST_F(DataPlaneTest, EveryChunkIsSummedByItsOwnerAndReachesAllMachines) {
  connectAll();
  for (size_t rank = 0; rank < 2; ++rank) submit(rank);
  EXPECT_FALSE(planes_[0]->drained());
  step();
  for (size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(buffers_[rank].call(0).remaining, 0U);
    for (uint8_t chunk = 0; chunk < 2; ++chunk)
      EXPECT_EQ(buffers_[rank].target(0, chunk), FakeBuffers::Bytes(64, static_cast<uint8_t>(2 * (chunk + 1))));
    EXPECT_TRUE(planes_[rank]->drained());
    EXPECT_FALSE(planes_[rank]->active());
  }
}

TEST_F(DataPlaneTest, HasAConnectionEachWayForTheOtherMachinesOwner) {
  connectAll();
  size_t comms = 0;
  planes_[0]->forEachComm([&](net::Comm&) { ++comms; });
  EXPECT_EQ(comms, 4U) << "pushes and answers, to the other's service and from it";
}

TEST_F(DataPlaneTest, ABrokenConnectionIsReportedWithItsEndpoint) {
  connectAll();
  for (size_t rank = 0; rank < 2; ++rank) submit(rank);
  planes_[1].reset();
  Result<bool> moved = planes_[0]->step();
  for (int turn = 0; turn < 5 && moved.ok(); ++turn) moved = planes_[0]->step();
  ASSERT_FALSE(moved.ok());
  EXPECT_EQ(planes_[0]->failedEndpoint(), 1U);
}

TEST_F(DataPlaneTest, AMissingCallOfTheOtherMachineIsReportedAfterTheTimeOut) {
  connectAll();
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
  EXPECT_GE(Deadline::Clock::now() - start, std::chrono::milliseconds(static_cast<int>(kTimeout * 1000)));
  submit(1);
  step();
  EXPECT_FALSE(planes_[0]->checkWait());
}

TEST_F(DataPlaneTest, AMachineThatDoesNotConnectIsNamedWhenTheDeadlinePasses) {
  join();
  Status outcome;
  cluster_->each([&](uint32_t rank, ControlPlane& control) {
    if (rank == 1) {  // takes part in the exchange, and connects with nobody
      net::Plugin plugin(std::make_shared<FakeNet>(wire_, FakeNet::Options{}));
      const net::Mesh mesh = std::move(net::Mesh::createListening(plugin, 0, {1, 2, plan_.owners})).value();
      EXPECT_TRUE(control.exchange(mesh.handles(), soon()).ok());
      std::this_thread::sleep_for(200ms);
      return;
    }
    outcome = connect(
                  rank, control, [] { return false; }, Deadline::in(100ms))
                  .status();
  });
  EXPECT_EQ(outcome.code(), Code::kRemote);
  EXPECT_EQ(outcome.message(), "no data connection with " + cluster_->plane(0).roster().rankName(1) + " within 1 s");
}

TEST_F(DataPlaneTest, ConnectingEndsWhenItIsCancelled) {
  join();
  Status outcome;
  cluster_->each([&](uint32_t rank, ControlPlane& control) {
    if (rank == 1) {
      net::Plugin plugin(std::make_shared<FakeNet>(wire_, FakeNet::Options{}));
      const net::Mesh mesh = std::move(net::Mesh::createListening(plugin, 0, {1, 2, plan_.owners})).value();
      EXPECT_TRUE(control.exchange(mesh.handles(), soon()).ok());
      std::this_thread::sleep_for(100ms);
      return;
    }
    outcome = connect(
                  rank, control, [] { return true; }, soon())
                  .status();
  });
  EXPECT_EQ(outcome.message(), std::string("aborted while connecting"));
}

}  // namespace
}  // namespace bps::test
