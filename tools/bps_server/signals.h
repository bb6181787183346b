// SignalHandler: handles the signals SIGTERM, SIGINT, SIGHUP and SIGUSR1 of bps-server on a separate thread.
//
// On the first SIGTERM or SIGINT, the server refuses new jobs and ends after its last running job.
// On the second SIGTERM or SIGINT, the server also ends the running jobs. On SIGHUP, the server
// reads the key file again and uses the key for later connections. On SIGUSR1, the server logs the state of its jobs.
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

  // Blocks the signals. Call this function before any thread starts: all threads inherit the signal
  // mask, and only a SignalHandler then receives the signals.
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
