// ProgressThread: the progress thread of one communicator on this rank, with the session that it works on.
//
// It shares with other threads only the ProgressEngine, whose lock callers may take, and the communicator's failure,
// which any thread may set and the engine reads in every step. Their headers state the memory ordering.
#pragma once
#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "src/comm/progress/progress_engine.h"
#include "src/comm/progress/session.h"

namespace bps {

class ProgressThread {
 public:
  // Starts the thread, which connects the data plane; returns when that has succeeded or failed.
  static Result<std::unique_ptr<ProgressThread>> start(std::unique_ptr<const Session> session, Deadline deadline);
  // Stops the thread. Calls in flight fail, and nothing touches their buffers afterwards.
  ~ProgressThread();

  const Session& session() const { return *session_; }
  const std::shared_ptr<ProgressEngine>& engine() const { return engine_; }
  const std::string& transport() const { return transport_; }
  // Why chunks on a GPU go through host memory; empty: they need not.
  const std::string& whyNoGpuDirect() const { return whyNoGpuDirect_; }

 private:
  explicit ProgressThread(std::unique_ptr<const Session> session)
      : session_(std::move(session)), whyNoGpuDirect_(session_->whyNoGpuDirect) {}
  Status run(Deadline deadline);
  Status prepare(Deadline deadline);
  Result<std::unique_ptr<DataPlane>> connectDataPlane(Deadline deadline);
  ChunkBuffers& machineBuffers();
  Status waitForHubReason(Status ended);
  bool cancelled() const { return stop_.load() || session_->failure.failed(); }

  const std::unique_ptr<const Session> session_;
  UserBuffers userBuffers_;
  std::atomic<bool> stop_{false};  // while connecting; afterwards see ProgressEngine::stop()
  // These three are written before started_ is set.
  std::shared_ptr<ProgressEngine> engine_;
  std::string transport_, whyNoGpuDirect_;
  std::promise<Status> started_;
  std::thread thread_;
};

}  // namespace bps
