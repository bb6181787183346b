// SignalHandler: handles the signals SIGTERM, SIGINT, SIGHUP and SIGUSR1 of bps-server on a separate thread.
//
// On the first SIGTERM or SIGINT, the server refuses new jobs and ends after its last running job.
// On the second SIGTERM or SIGINT, the server also ends the running jobs. On SIGHUP, the server opens its log file
// again, reads the key file again and uses the key for later connections. On SIGUSR1, the server logs the state of its
// jobs.
//
// The thread also talks to the service manager, if there is one: it reports that the server is ready, drains or
// reloads, what the server does, and that its control thread is alive.
#pragma once
#include <atomic>
#include <csignal>
#include <functional>
#include <thread>

#include "src/server/control_server.h"
#include "tools/bps_server/service/service_manager.h"

namespace bps {

class SignalHandler {
 public:
  using ReadKey = std::function<Result<Key>()>;

  // Blocks the signals. Call this function before any thread starts: all threads inherit the signal
  // mask, and only a SignalHandler then receives the signals.
  static void block();
  struct Service {
    ServiceManager manager;
    std::function<std::string()> status;     // one line for the user, such as "serving 2 jobs"
    std::function<std::string()> unhealthy;  // empty while the server may report that it is alive
  };
  SignalHandler(server::ControlServer& server, ReadKey readKey, Service service);
  SignalHandler(const SignalHandler&) = delete;
  SignalHandler& operator=(const SignalHandler&) = delete;
  ~SignalHandler();

 private:
  void wait();
  int nextSignal(const sigset_t& set);
  void report();
  void handle(int number);
  void end(int number);
  void reload();
  void reloadKey();

  server::ControlServer& server_;
  ReadKey readKey_;
  Service service_;
  bool draining_ = false;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace bps
