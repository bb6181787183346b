// Tests how the lanes to a server that joins take their places, and what remains of the lanes to one that leaves. The
// data planes of two machines and the service of the server connect over a fake net plugin in memory.
#include <thread>

#include "src/comm/lanes/data_plane.h"
#include "src/service/sum_service.h"
#include "tests/unit/comm/lanes/fake_buffers.h"
#include "tests/unit/comm/lanes/two_machines.h"

namespace bps::test {
namespace {

class LaneChangeTest : public testing::Test {
 protected:
  static constexpr size_t kServer = 2;  // its endpoint

  void SetUp() override {
    machines_.addAbsentServer();
    machines_.connectAll();
    plugin_ = machines_.newPlugin();
  }
  // Creates the lanes of both machines to the server, and the server's service.
  void prepareLanes() {
    net::Mesh server = net::Mesh::createListening(*plugin_, 0, {kServer, 2, {false, false, true}}).value();
    std::unique_ptr<net::Mesh> meshes[2];
    std::vector<Blob> toServer(3);
    for (size_t m = 0; m < 2; ++m) {
      meshes[m] = planes_[m]->listenFor(kServer).value();
      toServer[m] = meshes[m]->handles()[kServer];
      EXPECT_TRUE(meshes[m]->handles()[1 - m].empty()) << "the other machine is connected already";
      std::vector<Blob> fromServer(3);
      fromServer[kServer] = server.handles()[m];
      ASSERT_TRUE(meshes[m]->setPeerHandles(fromServer).ok());
    }
    ASSERT_TRUE(server.setPeerHandles(toServer).ok());
    const auto done = [](net::Mesh& mesh) { return mesh.step().value() == Progress::kDone; };
    const Deadline deadline = soon();
    while (!(static_cast<int>(done(server)) & static_cast<int>(done(*meshes[0])) & static_cast<int>(done(*meshes[1]))))
      ASSERT_FALSE(deadline.passed());
    std::vector<SumService::Lane> lanes(2);
    for (size_t m = 0; m < 2; ++m) {
      ASSERT_TRUE(planes_[m]->prepareLane(kServer, *meshes[m]).ok());
      net::PeerConnections connections = server.take(m);
      lanes[m] = {std::move(connections.pushIn), std::move(connections.answerOut)};
    }
    ServiceSpec spec(Summation::of(machines_.control(0).roster(), 1));
    spec.depth = machines_.plan().depth;
    spec.maxChunkBytes = machines_.plan().limits.maxChunkBytes;
    service_ = SumService::create(std::move(spec), std::move(lanes)).value();
  }
  void join() {
    prepareLanes();
    for (const auto& plane : planes_) plane->changeLane(kServer, {1, 1, 1});
  }
  // Submits a call with one chunk for each of the first `owners` endpoints.
  void submit(size_t rank, size_t owners = 3) {
    Collective& call = buffers_[rank].add(owners, 64, {});
    call.call.type = 1;  // uint8
    for (uint32_t owner = 0; owner < owners; ++owner) {
      call.chunks[owner].owner = owner;
      call.chunks[owner].round = 0;
    }
    planes_[rank]->submit(call);
  }
  static void step(DataPlane& plane) {
    const Result<bool> moved = plane.step();
    ASSERT_TRUE(moved.ok()) << moved.error().message();
  }
  void stepAll(int turns = 20) {
    for (; turns > 0; --turns) {
      for (const auto& plane : planes_) step(*plane);
      if (service_ != nullptr) {
        ASSERT_TRUE(service_->step().ok());
      }
    }
  }
  void expectSums(size_t call, size_t owners = 3) {
    for (FakeBuffers& buffers : buffers_) {
      ASSERT_EQ(buffers.call(call).remaining, 0U);
      for (uint8_t chunk = 0; chunk < owners; ++chunk)
        EXPECT_EQ(buffers.target(call, chunk), FakeBuffers::Bytes(64, static_cast<uint8_t>(2 * (chunk + 1))));
    }
  }
  // The server is lost. Both machines replace their lanes.
  void recover(uint64_t from, uint64_t to, const std::vector<size_t>& sumHolders) {
    service_.reset();
    DataPlane::EndedLane ended[2];
    Recovery recovery[2];
    for (size_t m = 0; m < 2; ++m) ended[m] = planes_[m]->endLane(kServer, [](net::Comm&) {}).value();
    for (size_t m = 0; m < 2; ++m) recovery[m] = {false, 9, from, to, sumHolders, {{}, {}}};
    for (size_t m = 0; m < 2; ++m) recovery[m].handles[1 - m] = ended[1 - m].mesh->handles()[m];
    std::jthread threads[2];
    for (size_t m = 0; m < 2; ++m)
      threads[m] = std::jthread([&, m] {
        const Status replaced = planes_[m]->replaceLane(kServer, std::move(ended[m]), std::move(recovery[m]), soon());
        EXPECT_TRUE(replaced.ok()) << replaced.message();
      });
    for (std::jthread& thread : threads) thread.join();
  }
  size_t dropLanes() {
    size_t released = 0;
    for (const auto& plane : planes_) plane->dropLanes([&](net::Comm&) { ++released; });
    return released;
  }
  size_t comms(size_t rank) {
    size_t count = 0;
    planes_[rank]->forEachComm([&](net::Comm&) { ++count; });
    return count;
  }

  FakeBuffers buffers_[2];
  TwoMachines machines_{{&buffers_[0], &buffers_[1]}, 3};  // half of the time is for the absent server
  std::unique_ptr<DataPlane> (&planes_)[2] = machines_.planes;
  std::unique_ptr<net::Plugin> plugin_;
  std::unique_ptr<SumService> service_;
};

TEST_F(LaneChangeTest, AServerThatJoinsSumsItsChunks) {
  const size_t before = comms(0);
  join();
  EXPECT_EQ(comms(0), before + 2);
  EXPECT_EQ(dropLanes(), 0U) << "there was no lane in this place";
  for (size_t rank = 0; rank < 2; ++rank) submit(rank);
  stepAll();
  expectSums(0);
  EXPECT_TRUE(planes_[0]->drained());
}

TEST_F(LaneChangeTest, CallsGoOnWithoutTheNewLaneBeforeTheChange) {
  prepareLanes();
  for (size_t rank = 0; rank < 2; ++rank) submit(rank, 2);
  stepAll();
  expectSums(0, 2);
}

TEST_F(LaneChangeTest, AnAbandonedJoinReleasesTheNewLane) {
  const size_t before = comms(0);
  prepareLanes();
  EXPECT_EQ(dropLanes(), 4U);
  EXPECT_EQ(comms(0), before);
  service_.reset();
  join();
  for (size_t rank = 0; rank < 2; ++rank) submit(rank);
  stepAll();
  expectSums(0);
}

TEST_F(LaneChangeTest, ALaneWithChunksIsNotChanged) {
  join();
  EXPECT_TRUE(planes_[0]->canChangeLane(kServer));
  submit(0);
  EXPECT_FALSE(planes_[0]->canChangeLane(kServer));
  submit(1);
  stepAll();
  EXPECT_TRUE(planes_[0]->canChangeLane(kServer));
}

TEST_F(LaneChangeTest, AServerThatLeavesGetsNoChunksAndItsLanesAreReleased) {
  join();
  for (size_t rank = 0; rank < 2; ++rank) submit(rank);
  stepAll();
  for (const auto& plane : planes_) plane->changeLane(kServer, {1, 1, 0});
  EXPECT_EQ(dropLanes(), 4U);
  service_.reset();
  for (size_t rank = 0; rank < 2; ++rank) submit(rank, 2);
  stepAll();
  expectSums(1, 2);
}

// Machine 0 uses the new lane already. Machine 1 has it, but it is not in its place.
TEST_F(LaneChangeTest, AServerIsLostWhileOnlyOneMachineHasItsLaneInPlace) {
  prepareLanes();
  planes_[0]->changeLane(kServer, {1, 1, 1});
  submit(0);
  recover(0, 0, {});
  planes_[1]->changeLane(kServer, {1, 1, 1});
  submit(1);
  stepAll();
  expectSums(0);
}

}  // namespace
}  // namespace bps::test
