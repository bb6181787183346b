// ServedJob: one job inside bps-server, on one lane thread. A ServedJob connects to the workers and
// then sums for them. A ServedJob has one SumService per rail (src/plan/rails.h).
//
//   opening -> listening -> (peer handles arrive) connecting -> serving -> ended (after finish(), or all workers have
//   closed their lanes)
//
// A step of opening or connecting handles a few peers only, so that a large job does not delay the thread's other jobs.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/wait_backoff.h"
#include "src/net/mesh.h"
#include "src/plan/job_plan.h"
#include "src/server/job.h"
#include "src/server/metrics/counters.h"
#include "src/service/chunk_service.h"
#include "src/service/parameters/param_store.h"
#include "src/trace/recorder.h"

namespace bps {

class ServedJob {
 public:
  enum class Step { kIdle, kMoved, kListening, kConnected, kEnded };
  struct LostRank {
    size_t rank;
    std::string why;
  };

  ~ServedJob();  // writes the trace
  static Result<std::unique_ptr<ServedJob>> create(const Env& env, const JobSpec& spec, const JobPlan& plan);

  // Returns this server's handles for all endpoints, one rail after another. The handles are valid
  // as soon as step() has returned kListening.
  std::vector<Blob> handles() const;
  // Sets the peers' handles, in the order of handles(). Call setPeerHandles() once, after step()
  // has returned kListening.
  Status setPeerHandles(const std::vector<Blob>& handles);
  // Fails if the job must end because ranks disagree or a connection fails at the start. If the
  // lanes of a worker end later, step() does not fail. takeLost() then returns this worker, and the
  // hub decides whether the worker died.
  Result<Step> step();
  // In asynchronous training: a machine is lost or has left.
  void lose(size_t machine);
  // Tells the job that no contribution will arrive. The job ends as soon as its answers are passed
  // to the transport.
  void finish() { finishing_ = true; }
  // Returns the workers whose lanes have ended since the last call of takeLost().
  std::vector<LostRank> takeLost() { return std::exchange(lost_, {}); }
  // Returns what the next heartbeats must carry if this has changed since the last call. Warns by log of a call that
  // makes no progress. Call this function regularly.
  std::optional<Heartbeat> checkWait();
  // Call clearWait() after a step that made progress. If the result is true, the heartbeats must no
  // longer report a wait.
  bool clearWait() {
    waits_.backoff.restart();
    return !std::exchange(waits_.reported, Heartbeat()).sameWait(Heartbeat());
  }
  // True if the job needs steps to connect to its peers, even without events.
  bool settingUp() const { return state_ == State::kOpening || state_ == State::kConnecting; }
  bool active() const;
  void forEachComm(const std::function<void(net::Comm&)>& use);
  uint64_t bytesSummed() const;
  JobCounters counters() const;
  JobReport report() const;
  uint64_t id() const { return spec_.roster.jobId; }

 private:
  enum class State { kOpening, kListening, kConnecting, kServing };
  ServedJob(const Env& env, const JobSpec& spec, const JobPlan& plan) : spec_(spec), plan_(plan), env_(env) {}
  struct Rail {
    size_t number = 0;
    std::unique_ptr<net::Mesh> mesh;
    std::unique_ptr<ChunkService> service;  // null if this server has no share
    std::vector<bool> closed;               // per machine
  };
  struct Waits {
    Heartbeat reported;
    WaitBackoff backoff;
  };
  Result<Step> listen();
  Result<Step> connect();
  Status build(Rail& rail);
  Result<Step> serve();
  Result<bool> serve(Rail& rail);
  void warnOfWait();
  void startTrace();
  const char* stateName() const;

  JobSpec spec_;
  JobPlan plan_;
  Env env_;
  State state_ = State::kOpening;
  std::shared_ptr<net::Plugin> plugin_;
  std::vector<Rail> rails_;  // after setPeerHandles(), only the rails in use
  size_t nextRail_ = 0;      // the rail that connects next
  bool finishing_ = false;
  std::unique_ptr<trace::Recorder> recorder_;  // null if nothing is recorded
  std::vector<LostRank> lost_;
  Waits waits_;
  const Deadline::Clock::time_point opened_ = Deadline::Clock::now();
};

}  // namespace bps
