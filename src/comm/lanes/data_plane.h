// DataPlane: the data connections of one rail of a machine (plan/rails.h) within one communicator.
// The DataPlane has a lane to every owner, and a summation service if the machine is an owner. On the
// main rail it also has the exchange path, unless BPS_DIRECT_BYTES is 0.
// After connect(), only the holder of the progress lock (progress_engine.h) uses the DataPlane.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/env.h"
#include "src/comm/call/param_copies.h"
#include "src/comm/lanes/bcube/bcube_path.h"
#include "src/comm/lanes/exchange_path.h"
#include "src/comm/lanes/lane.h"
#include "src/comm/lanes/parameters/owner_takeover.h"
#include "src/comm/lanes/recovery.h"
#include "src/control/control_plane.h"
#include "src/net/net.h"
#include "src/net/net_counters.h"
#include "src/plan/job_plan.h"
#include "src/service/chunk_service.h"
#include "src/service/parameters/param_store.h"

namespace bps {

// The NIC that the machine plan assigns to a rank. If the NicId is empty, the rank uses the first
// device of the net plugin.
struct NicId {
  std::string name, busId;
};

struct DataPlaneSpec {
  const Env& env;
  ControlPlane& control;
  const JobPlan& plan;
  NicId nic;
  std::shared_ptr<net::Plugin> plugin;  // if null, connect() loads the plugin
  ChunkBuffers& buffers;
  Deadline deadline;
  std::function<bool()> cancelled;      // connect() polls it
  bool onMainRail = true;               // see plan/rails.h
  trace::Recorder* recorder = nullptr;  // null: events are not recorded
  // Null, or what the connections count into. With counters, the data plane also measures waitTimes().
  std::shared_ptr<net::NetCounters> counters{};
  std::shared_ptr<ParamStore> store{};  // if the owners keep parameters
  std::shared_ptr<ParamCopies> copies{};

  bool usesExchangePath() const { return onMainRail && plan.limits.exchangeChunkBytes > 0; }
};

class DataPlane final : public GpuRegionRegistrar {
 public:
  // Listens, exchanges handles and connects. Blocks until all lanes of this machine are connected,
  // the deadline passes or `cancelled` returns true. If the deadline passes, the error names the
  // endpoint that is missing. The objects to which the spec refers must outlive the data plane.
  static Result<std::unique_ptr<DataPlane>> connect(const DataPlaneSpec& spec);

  // Submits every chunk to the lane of its owner or to the exchange path. The call must exist until
  // its `remaining` is 0.
  void submit(Collective& call);

  // Makes one step without blocking and returns whether anything moved. If a connection broke,
  // step() fails, and failedEndpoint() is the peer of this connection.
  Result<bool> step();
  std::optional<size_t> failedEndpoint() const { return failedEndpoint_; }
  size_t rail() const { return rail_; }

  // True if the transport has accepted all data that peers wait for.
  bool drained() const;
  // Returns the oldest call that has waited for Roster::waitReportTime(), and the endpoint for which
  // the call waits. Call this function regularly.
  std::optional<EndpointWait> checkWait();
  // Adds what the calls in flight still need from each peer.
  void addPeerWaits(std::vector<PeerWait>& waits) const;
  void forEachComm(const std::function<void(net::Comm&)>& use);
  uint64_t messagesSent();
  std::vector<Lane::Work> work() const;  // of the lane to every endpoint
  // For how long the summation service of this machine has waited for each machine. Null if there is no service.
  const WaitTimes* waitTimes() const { return service_ != nullptr ? &service_->waitTimes() : nullptr; }
  // Returns why the NIC cannot access GPU memory. The result is empty if the NIC can.
  const std::string& whyNoGpuDirect() const { return nic_.gpuObstacle; }
  // Ends the lane to a lost server (recovery.h), and opens the listeners of the lane that replaces it. Passes the
  // connections of the lane to `release` before they close.
  struct EndedLane {
    LaneRemains remains;
    std::unique_ptr<net::Mesh> mesh;
  };
  Result<EndedLane> endLane(size_t endpoint, const std::function<void(net::Comm&)>& release);
  // Connects with the other machines and replaces the ended lane. Blocks until the deadline passes.
  Status replaceLane(size_t endpoint, EndedLane ended, Recovery recovery, Deadline deadline);
  // Returns the lane to the owner or, if changeLane() has a new lane to it, the new lane.
  Lane& lane(size_t endpoint) { return *newestLane(endpoint); }

  // Asynchronous training goes on without an endpoint (OwnerTakeover). Passes the connections of the lane to `release`
  // before they close.
  void loseOwner(size_t endpoint, const std::function<void(net::Comm&)>& release);
  // A server joins in four steps. First the caller exchanges the handles of listenFor() with the server, and steps the
  // mesh until it is connected. Then prepareLane() creates the new lane. As soon as canChangeLane(), changeLane() puts
  // the new lane in its place, for the chunks that are submitted from then on. dropLanes() ends the lane that was
  // there before; peers may use it until their changeLane(). Without a new lane, changeLane() removes an owner that
  // gets no chunks any more. dropLanes() ends the old lane and a new lane that has no place yet; it passes their
  // connections to `release` first.
  using UseComm = std::function<void(net::Comm&)>;
  Result<std::unique_ptr<net::Mesh>> listenFor(size_t endpoint) const;
  Status prepareLane(size_t endpoint, net::Mesh& mesh);
  bool canChangeLane(size_t endpoint) const { return lanes_[endpoint] == nullptr || lanes_[endpoint]->idle(); }
  void changeLane(size_t endpoint, const std::vector<uint64_t>& weights);
  void dropLanes(const UseComm& release);
  std::vector<bool> registerGpuRegion(const net::GpuRegion& region) override;
  bool carriesGpuMemory(size_t endpoint) const override {
    return lanes_[endpoint] != nullptr && lanes_[endpoint]->carriesGpuMemory();
  }
  const std::string& transport() const { return nic_.transport; }

 private:
  struct Nic {
    int device = 0;  // of the net plugin
    std::string name, transport;
    std::string gpuObstacle;  // why the NIC cannot access GPU memory; empty if it can
    net::GpuRegistrationModes gpu;
  };
  explicit DataPlane(const DataPlaneSpec& spec);
  Status connectMesh(net::Mesh& mesh, Deadline deadline);
  void waitForHubFailure() const;
  Status connectOnBcube();
  ExchangeSpec exchangeSpec() const;
  trace::ChunkRecorder recorder(size_t peer) const {
    return {spec_.recorder, static_cast<uint16_t>(peer), static_cast<uint8_t>(rail_)};
  }
  Status createLanes(const DataPlaneSpec& spec, net::Mesh& mesh);
  Status createService(const DataPlaneSpec& spec, std::vector<ChunkService::Lane> lanes);
  Result<std::unique_ptr<Lane>> createLane(size_t owner, net::PeerConnections connections) const;
  std::unique_ptr<Lane>& newestLane(size_t endpoint) {
    return change_.next != nullptr && change_.endpoint == endpoint ? change_.next : lanes_[endpoint];
  }
  uint64_t oldestRound() const;
  void submit(Collective& call, size_t index);
  void createTakeover();

  DataPlaneSpec spec_;
  size_t self_ = 0, rail_ = 0;
  uint64_t rounds_ = 0;  // of all submitted calls
  std::unique_ptr<ChunkService> service_;
  struct Ownerless {                         // the paths of calls without owners
    std::unique_ptr<ExchangePath> exchange;  // null if no call takes the exchange path
    std::unique_ptr<BcubePath> bcube;        // if set, it carries all calls, and there are no lanes
  };
  Ownerless ownerless_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // per endpoint; null if the endpoint is not an owner
  struct LaneChange {
    size_t endpoint = 0;
    std::unique_ptr<Lane> next;      // between prepareLane() and changeLane()
    std::unique_ptr<Lane> previous;  // between changeLane() and dropLanes()
  };
  LaneChange change_;
  std::unique_ptr<OwnerTakeover> takeover_;  // null if the owners keep no parameters
  std::vector<size_t> sendOrder_;            // order of the owners, see plan/send_order.h
  std::optional<size_t> failedEndpoint_;
  Nic nic_;
};

}  // namespace bps
