// Signals: what SIGTERM, SIGINT and SIGHUP do to bps-server.
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

class Signals {
 public:
  using ReadKey = std::function<Result<Key>()>;

  // Call before any thread starts: all inherit that the signals wait for a Signals.
  static void block();
  Signals(server::ControlServer& server, ReadKey readKey);
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;
  ~Signals();

 private:
  void wait();
  void end(int number);
  void readKeyAgain();

  server::ControlServer& server_;
  ReadKey readKey_;
  bool draining_ = false;
  std::atomic<bool> over_{false};
  std::thread thread_;
};

}  // namespace bps
