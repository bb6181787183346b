// ProgressThread: the progress thread of one communicator on this rank, with the session that it works on.
//
// The progress thread shares two objects with other threads: the ProgressEngine, whose lock callers
// may take, and the communicator's failure, which any thread may set. The headers of these two
// classes describe the memory ordering.
#pragma once
#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "src/comm/priority/chunk_gate.h"
#include "src/comm/progress/progress_engine.h"
#include "src/comm/progress/session.h"

namespace bps {

class ProgressThread {
 public:
  // Starts the thread, which connects the data plane. Returns when the data plane is connected or
  // has failed to connect.
  static Result<std::unique_ptr<ProgressThread>> start(std::unique_ptr<const Session> session, Deadline deadline);
  // Stops the thread. Calls in flight fail, and afterwards nothing accesses their buffers.
  ~ProgressThread();

  const Session& session() const { return *session_; }
  const std::shared_ptr<ProgressEngine>& engine() const { return engine_; }
  const std::string& transport() const { return transport_; }
  // Returns why chunks in GPU memory go through host memory. The result is empty if they need not.
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
  std::optional<ChunkGate> gate_;  // of the data plane; empty if there is none
  std::atomic<bool> stop_{false};  // set by the destructor in order to stop the thread
  // The next three members are written before started_ is set.
  std::shared_ptr<ProgressEngine> engine_;
  std::string transport_, whyNoGpuDirect_;
  std::promise<Status> started_;
  std::thread thread_;
};

}  // namespace bps
