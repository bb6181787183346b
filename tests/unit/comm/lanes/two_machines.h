// TwoMachines: two ranks in one process, each of which acts as a machine. Their data planes connect over a fake net
// plugin in memory.
#pragma once
#include <array>
#include <functional>
#include <memory>
#include <optional>

#include "src/comm/lanes/data_plane.h"
#include "tests/unit/control/cluster.h"
#include "tests/unit/net/fake/fake_net.h"

namespace bps::test {

class TwoMachines {
 public:
  explicit TwoMachines(std::array<ChunkBuffers*, 2> buffers, double timeout = 2)
      : env_(localEnv(timeout)), buffers_(buffers) {}
  // Gives the roster a place for a server, which is absent. Call it first.
  void addAbsentServer() { env_.servers = freeAddress().text(); }

  // Makes both ranks join, so that they agree on the roster. Creates no data plane.
  void join() {
    cluster_.emplace(2, env_);
    cluster_->expectJoined();
    plan_ = std::move(JobPlan::make(cluster_->plane(0).roster())).value();
  }
  void connectAll() {
    join();
    cluster_->each([this](uint32_t rank, ControlPlane& control) {
      auto plane = connect(
          rank, control, [] { return false; }, soon());
      ASSERT_TRUE(plane.ok()) << plane.error().message();
      planes[rank] = std::move(plane).value();
    });
  }
  // Connects the data plane of rank 0. Rank 1 takes part in the exchange of handles, but does not connect to rank 0.
  Status connectWithoutPeer(const std::function<bool()>& cancelled, Deadline deadline) {
    join();
    Status outcome;
    std::atomic<bool> ended{false};
    cluster_->each([&](uint32_t rank, ControlPlane& control) {
      if (rank == 0) {
        outcome = connect(rank, control, cancelled, deadline).status();
        ended.store(true);
        return;
      }
      net::Plugin plugin(std::make_shared<FakeNet>(wire_, FakeNet::Options{}));
      const net::Mesh mesh = std::move(net::Mesh::createListening(plugin, 0, {1, 2, plan_.owners, true})).value();
      EXPECT_TRUE(control.exchange(mesh.handles(), soon()).ok());
      while (!ended.load()) std::this_thread::sleep_for(1ms);
    });
    return outcome;
  }

  ControlPlane& control(size_t rank) { return cluster_->plane(rank); }
  Cluster& cluster() { return *cluster_; }
  const JobPlan& plan() const { return plan_; }
  std::unique_ptr<net::Plugin> newPlugin() const {
    return std::make_unique<net::Plugin>(std::make_shared<FakeNet>(wire_, FakeNet::Options{}));
  }
  std::unique_ptr<DataPlane> planes[2];

 private:
  Result<std::unique_ptr<DataPlane>> connect(uint32_t rank, ControlPlane& control,
                                             const std::function<bool()>& cancelled, Deadline deadline) {
    const auto plugin = std::make_shared<net::Plugin>(std::make_shared<FakeNet>(wire_, FakeNet::Options{}));
    return DataPlane::connect({env_, control, plan_, {}, plugin, *buffers_[rank], deadline, cancelled});
  }

  Env env_;
  const std::array<ChunkBuffers*, 2> buffers_;
  std::shared_ptr<FakeWire> wire_ = std::make_shared<FakeWire>();
  JobPlan plan_;
  std::optional<Cluster> cluster_;
};

}  // namespace bps::test
