// DataPlane: all data connections of one rail of a machine (rails.h) within one communicator: a lane to every owner,
// and a summation service if the machine owns a share. Belongs to who has the turn (progress_engine.h).
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/env.h"
#include "src/comm/lanes/lane.h"
#include "src/control/control_plane.h"
#include "src/net/net.h"
#include "src/plan/job_plan.h"
#include "src/service/sum_service.h"

namespace bps {

// The NIC that a rank is to use, as its machine's plan has it; empty: the transport's first device.
struct NicId {
  std::string name, busId;
};

struct DataPlaneSpec {
  const Env& env;
  ControlPlane& control;
  const JobPlan& plan;
  NicId nic;
  std::shared_ptr<net::Plugin> plugin;  // null: to be loaded
  ChunkBuffers& buffers;
  Deadline deadline;
  std::function<bool()> cancelled;  // asked while connecting
};

class DataPlane final : public GpuRegionRegistrar {
 public:
  // Loads the transport, listens, exchanges handles and connects: blocks until all lanes of this machine are up, the
  // deadline passes (the error names the endpoint that is missing), or `cancelled` says so. The arguments' references
  // outlive the data plane.
  static Result<std::unique_ptr<DataPlane>> connect(const DataPlaneSpec& spec);

  // Every chunk of the call goes to its owner's lane, or to all machines' lanes. The call stays until its remaining
  // chunks are 0.
  void submit(Collective& call);

  // Moves what can move; true when anything did. After a failure culprit() is the endpoint whose connection on this
  // rail broke.
  Result<bool> step();
  std::optional<size_t> failedEndpoint() const { return failedEndpoint_; }
  size_t rail() const { return rail_; }

  // Everything that others wait for has been handed to the transport.
  bool drained() const;
  bool active() const { return service_ != nullptr && service_->active(); }
  // For which endpoint the oldest call waits that has waited for the time-out, if one has. Call now and then.
  std::optional<EndpointWait> checkWait();
  void forEachComm(const std::function<void(net::Comm&)>& use);
  // Why the NIC reaches no memory of the GPU that the plan has beside it; empty: it does.
  const std::string& whyNoGpuDirect() const { return gpuObstacle_; }
  std::vector<bool> registerGpuRegion(const net::GpuRegion& region) override;
  const std::string& transport() const { return transport_; }

 private:
  DataPlane() = default;
  Status connectMesh(const DataPlaneSpec& spec, net::Mesh& mesh);
  static void waitForHubFailure(const DataPlaneSpec& spec);
  Status createLanes(const DataPlaneSpec& spec, net::Mesh& mesh);

  size_t self_ = 0, machines_ = 0, rail_ = 0;
  std::unique_ptr<SumService> service_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // per endpoint; null where nobody owns
  std::vector<size_t> sendOrder_;             // the owners, as sendOrder() has them
  std::optional<size_t> failedEndpoint_;
  std::chrono::milliseconds peerTimeout_{};
  std::string transport_, nic_, gpuObstacle_;
  net::GpuRegistrationModes gpuRegistrationModes_;
};

}  // namespace bps
