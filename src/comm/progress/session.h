// Session: one communicator's data path on this rank, as start-up has negotiated and made it (startup/connect.h).
// Immutable, so any thread may read it. The ProgressThread owns it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/io/fd.h"
#include "src/comm/failure/communicator_failure.h"
#include "src/comm/lanes/data_plane.h"
#include "src/comm/local/local_reducer.h"
#include "src/control/control_plane.h"
#include "src/cuda/staging/cuda_backend.h"
#include "src/plan/job_plan.h"
#include "src/plan/rails.h"

namespace bps {

// The parts of a communicator that a session uses; they outlive it.
struct SessionBase {
  const Env& env;
  ControlPlane& control;
  CommunicatorFailure& failure;
  std::shared_ptr<Doorbell> bell;  // wakes the progress thread
  CudaBackend* cuda;               // null: host memory only
};

struct Session : SessionBase {
  explicit Session(SessionBase base) : SessionBase(std::move(base)) {}

  const RankEntry& self() const { return control.roster().ranks[control.rank()]; }
  StagedBuffers* staged() const { return cuda != nullptr ? &cuda->buffers() : nullptr; }
  // Counts the bytes that this machine moves; null: nothing counts them.
  MachineTraffic* traffic() const { return local != nullptr ? &local->traffic() : singleRankTraffic.get(); }

  JobPlan plan;
  Rails rails;
  std::unique_ptr<LocalReducer> local;                // null: the rank is alone on its machine
  std::unique_ptr<MachineTraffic> singleRankTraffic;  // null: not needed
  std::shared_ptr<net::Plugin> plugin;                // null: the data plane loads it
  NicId nic;                                          // of the rail that this rank drives
  std::string whyNoGpuDirect;                         // why the NIC does not access GPU memory; empty: it may
  std::vector<unsigned> progressCpus;                 // for the progress thread; empty: any
};

}  // namespace bps
