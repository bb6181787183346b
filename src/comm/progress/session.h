// Session: everything that a communicator's data path needs on this rank. connect() makes the
// session (startup/connect.h). The session does not change afterwards, so any thread may read it.
// The session belongs to the ProgressThread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/io/fd.h"
#include "src/comm/failure/communicator_failure.h"
#include "src/comm/lanes/data_plane.h"
#include "src/comm/local/local_reducer.h"
#include "src/comm/priority/comm_priority.h"
#include "src/comm/servers/call_cutter.h"
#include "src/comm/servers/server_events.h"
#include "src/control/control_plane.h"
#include "src/cuda/staging/cuda_backend.h"
#include "src/plan/job_plan.h"
#include "src/plan/rails.h"
#include "src/trace/recorder.h"

namespace bps {

// The parts of a communicator that a session uses. These parts must outlive the session.
struct SessionBase {
  const Env& env;
  ControlPlane& control;
  CommunicatorFailure& failure;
  ServerEvents& serverEvents;
  std::shared_ptr<Doorbell> bell;  // wakes the progress thread
  CudaBackend* cuda;               // null if all buffers are in host memory
  const CommPriority& priority;
  CommCounters* counters = nullptr;             // null if nothing counts
  std::shared_ptr<ParamStore> store = nullptr;  // if the communicator keeps parameters
  std::shared_ptr<ParamCopies> copies = nullptr;
};

struct Session : SessionBase {
  explicit Session(SessionBase base) : SessionBase(std::move(base)) {}

  const RankEntry& self() const { return control.roster().ranks[control.rank()]; }
  StagedBuffers* staged() const { return cuda != nullptr ? &cuda->buffers() : nullptr; }
  // Returns the counters of the bytes that this machine moves, or null if nothing counts them.
  MachineTraffic* traffic() const { return local != nullptr ? &local->traffic() : singleRankTraffic.get(); }

  JobPlan plan;
  std::unique_ptr<CallCutter> cutter;
  Rails rails;
  std::unique_ptr<LocalReducer> local;                // null if the rank is alone on its machine
  std::unique_ptr<MachineTraffic> singleRankTraffic;  // null if not needed
  std::shared_ptr<net::Plugin> plugin;                // null if the data plane loads the plugin
  NicId nic;                                          // NIC of the rail that this rank drives
  std::string whyNoGpuDirect;                         // why the NIC does not access GPU memory; empty if it may
  std::unique_ptr<trace::Recorder> recorder;          // null: events are not recorded
  std::vector<unsigned> progressCpus;                 // CPUs for the progress thread; empty means any CPU
};

}  // namespace bps
