// ServedJob: one job inside bps-server, on its lane thread: connects with the workers, then sums for them.
//
//   listening -> (peer handles come) connecting -> serving -> ended (after finish(), or every worker has closed its
//   lanes)
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/net/mesh.h"
#include "src/server/job.h"
#include "src/service/job_plan.h"
#include "src/service/sum_service.h"

namespace bps {

class ServedJob {
 public:
  enum class Step { kIdle, kMoved, kConnected, kEnded };
  struct Lost {
    size_t endpoint;
    std::string why;
  };

  static Result<std::unique_ptr<ServedJob>> create(const Env& env, const JobSpec& spec, const JobPlan& plan);

  std::vector<Blob> handles() const { return mesh_->handles(); }
  Status setPeerHandles(const std::vector<Blob>& handles);
  // Fails with what ends the job: ranks that disagree, no connection at the start. That a worker's lanes ended later is
  // no failure here: it is lost, and whether it died or was done, the hub knows and says.
  Result<Step> step();
  // Nothing more will come: the job ends as soon as its answers are with the transport.
  void finish() { finishing_ = true; }
  // The worker whose lanes ended in the last step, once.
  std::optional<Lost> takeLost() { return std::exchange(lost_, std::nullopt); }
  void watch() const {
    if (service_ != nullptr) service_->watch();
  }
  bool connecting() const { return state_ == State::kConnecting; }
  bool active() const { return service_ != nullptr && service_->active(); }
  void forEachComm(const std::function<void(net::Comm&)>& use);
  uint64_t bytesSummed() const { return service_ != nullptr ? service_->bytesSummed() : 0; }
  uint64_t id() const { return spec_.roster.jobId; }

 private:
  enum class State { kListening, kConnecting, kServing };
  ServedJob(const Env& env, const JobSpec& spec, const JobPlan& plan) : spec_(spec), plan_(plan), env_(env) {}
  Status build();
  Result<Step> serve();

  JobSpec spec_;
  JobPlan plan_;
  Env env_;
  State state_ = State::kListening;
  std::shared_ptr<net::Plugin> plugin_;
  std::unique_ptr<net::Mesh> mesh_;
  std::unique_ptr<SumService> service_;
  bool finishing_ = false;
  std::vector<bool> closed_;  // per machine
  std::optional<Lost> lost_;
};

}  // namespace bps
