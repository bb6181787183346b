// SignalHandler: handles SIGTERM, SIGINT and SIGHUP of bps-server on a thread of its own.
//
// On the first SIGTERM or SIGINT the server refuses new jobs and ends with the last running job. A second one ends the
// jobs too. On SIGHUP it reads the key file again, for later connections.
#pragma once
#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

#include "src/server/control_server.h"

namespace bps {

class SignalHandler {
 public:
  using ReadKey = std::function<Result<Key>()>;

  // Call before any thread starts. All threads inherit the signal mask, so only a SignalHandler receives the signals.
  static void block();
  SignalHandler(server::ControlServer& server, ReadKey readKey);
  SignalHandler(const SignalHandler&) = delete;
  SignalHandler& operator=(const SignalHandler&) = delete;
  ~SignalHandler();

 private:
  void wait();
  void end(int number);
  void reloadKey();

  server::ControlServer& server_;
  ReadKey readKey_;
  bool draining_ = false;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace bps
