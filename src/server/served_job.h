// ServedJob: one job inside bps-server, on its lane thread: connects with the workers, then sums for them, on each rail
// (src/plan/rails.h) with a service of its own.
//
//   opening -> listening -> (peer handles come) connecting -> serving -> ended (after finish(), or every worker has
//   closed its lanes)
//
// Opening and connecting go a few peers a step, whatever the size of the job, so that other jobs go on beside it.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/net/mesh.h"
#include "src/plan/job_plan.h"
#include "src/server/job.h"
#include "src/service/sum_service.h"

namespace bps {

class ServedJob {
 public:
  enum class Step { kIdle, kMoved, kListening, kConnected, kEnded };
  struct LostRank {
    size_t rank;
    std::string why;
  };

  static Result<std::unique_ptr<ServedJob>> create(const Env& env, const JobSpec& spec, const JobPlan& plan);

  // From kListening on. By rail and endpoint, one rail after the other; so those of the peers.
  std::vector<Blob> handles() const;
  // Once, while it listens.
  Status setPeerHandles(const std::vector<Blob>& handles);
  // Fails with what ends the job: ranks that disagree, no connection at the start. That a worker's lanes ended later is
  // no failure here: it is lost, and whether it died or was done, the hub knows and says.
  Result<Step> step();
  // Nothing more will come: the job ends as soon as its answers are with the transport.
  void finish() { finishing_ = true; }
  // The workers whose lanes ended in the last step, once.
  std::vector<LostRank> takeLost() { return std::exchange(lost_, {}); }
  // Call now and then. What the next heartbeats are to say, when that has changed.
  std::optional<Heartbeat> checkWait();
  // After a step in which something moved: true, the heartbeats are to say nothing any more.
  bool clearWait() { return !std::exchange(wait_, Heartbeat()).sameWait(Heartbeat()); }
  // Has to be stepped to get on with its peers.
  bool settingUp() const { return state_ == State::kOpening || state_ == State::kConnecting; }
  bool active() const;
  void forEachComm(const std::function<void(net::Comm&)>& use);
  uint64_t bytesSummed() const;
  uint64_t id() const { return spec_.roster.jobId; }

 private:
  enum class State { kOpening, kListening, kConnecting, kServing };
  ServedJob(const Env& env, const JobSpec& spec, const JobPlan& plan) : spec_(spec), plan_(plan), env_(env) {}
  struct Rail {
    size_t number = 0;
    std::unique_ptr<net::Mesh> mesh;
    std::unique_ptr<SumService> service;  // null: this server has no share
    std::vector<bool> closed;             // per machine
  };
  Result<Step> listen();
  Result<Step> connect();
  Status build(Rail& rail);
  Result<Step> serve();
  Result<bool> serve(Rail& rail);

  JobSpec spec_;
  JobPlan plan_;
  Env env_;
  State state_ = State::kOpening;
  std::shared_ptr<net::Plugin> plugin_;
  std::vector<Rail> rails_;  // once the peers' handles are there: those in use
  size_t nextRail_ = 0;      // the rail that connects next
  bool finishing_ = false;
  std::vector<LostRank> lost_;
  Heartbeat wait_;
};

}  // namespace bps
