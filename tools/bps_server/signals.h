// SignalHandler: what SIGTERM, SIGINT and SIGHUP do to bps-server.
//
// SIGTERM or SIGINT: the server takes no new jobs and ends with the last one; a second one ends the jobs too. SIGHUP:
// the key file is read again, for connections that are made from then on.
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

  // Call before any thread starts: all inherit that the signals wait for a Signals.
  static void block();
  SignalHandler(server::ControlServer& server, ReadKey readKey);
  SignalHandler(const SignalHandler&) = delete;
  SignalHandler& operator=(const SignalHandler&) = delete;
  ~SignalHandler();

 private:
  void wait();
  void end(int number);
  void readKeyAgain();

  server::ControlServer& server_;
  ReadKey readKey_;
  bool draining_ = false;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace bps
