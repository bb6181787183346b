// ProgressThread: the progress thread of one communicator on this rank.
//
// Edges to other threads: ProgressEngine, whose turn other threads may take; FirstError, raised by any thread and
// polled once per loop. Each header states its memory ordering.
#pragma once
#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "src/base/env.h"
#include "src/comm/failure/first_error.h"
#include "src/comm/lanes/data_plane.h"
#include "src/comm/progress/progress_engine.h"
#include "src/comm/progress/session.h"

namespace bps {

struct ProgressThreadArgs {
  Env env;
  Session session;
  NicId nic;
  std::shared_ptr<net::Plugin> plugin;    // null: to be loaded
  std::string whyNoGpuDirect;             // why no NIC may reach the GPU; empty: it may
  std::vector<unsigned> cpus;             // where the thread runs; empty: anywhere
  std::function<void(Status)> fail;       // called with an error that only this rank knows; sets `failure`. Any thread
  Deadline deadline = Deadline::never();  // for connecting
};

class ProgressThread {
 public:
  // Starts the thread, which connects the data plane; returns when that is done or has failed.
  static Result<std::unique_ptr<ProgressThread>> start(ProgressThreadArgs args);
  // Stops the thread: calls still in flight fail, and their buffers are not touched afterwards.
  ~ProgressThread();

  const std::shared_ptr<ProgressEngine>& progress() const { return progress_; }
  const std::string& transport() const { return transport_; }
  // Why chunks on a GPU pass through host memory; empty: they need not.
  const std::string& whyNoGpuDirect() const { return args_.whyNoGpuDirect; }

 private:
  explicit ProgressThread(ProgressThreadArgs args) : args_(std::move(args)) {}
  Status run();
  Status prepare();
  Status waitForHubReason(Status ended);

  ProgressThreadArgs args_;
  UserBuffers userBuffers_;
  std::atomic<bool> stop_{false};             // while connecting; afterwards see ProgressEngine::stop()
  std::shared_ptr<ProgressEngine> progress_;  // this and transport_ are written before started_ is set
  std::string transport_;
  std::promise<Status> started_;
  std::thread thread_;
};

}  // namespace bps
