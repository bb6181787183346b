// Runs an all-reduce cluster inside one process. Its k servers and n ranks are threads that
// communicate over loopback.
#pragma once
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "src/base/env.h"
#include "src/comm/communicator.h"
#include "src/server/control_server.h"
#include "src/server/job_threads.h"

namespace bps::test {

// Settings of the tests: loopback only, a short time-out, no keys.
inline Env testEnv() {
  Env env;
  env.socketIfname = "lo";
  env.timeout.value = 20;
  env.auth = false;
  env.device = "host";
  return env;
}

// Runs k servers on free ports, each with its own threads. The destructor ends the servers.
class Servers {
 public:
  explicit Servers(size_t count, const Env& env = testEnv());
  ~Servers();
  std::string list() const;  // in the format of BPS_SERVERS
  JobThreads& runner(size_t i) { return *servers_[i]->runner; }
  void stop(size_t i) { servers_[i]->control->stop(); }
  void drain(size_t i) { servers_[i]->control->drain(); }

 private:
  struct TestServer {
    std::unique_ptr<JobThreads> runner;
    std::unique_ptr<server::ControlServer> control;
    std::jthread thread;
  };
  std::vector<std::unique_ptr<TestServer>> servers_;
};

struct Job {
  size_t ranks = 2;
  size_t ranksPerMachine = 1;
  std::vector<size_t> machines = {};  // the number of ranks of each machine; if empty, ranksPerMachine applies
  std::string servers;
  Env env = testEnv();
  std::function<void(size_t machine, Env& env)> perMachine = {};  // changes the environment of a machine's ranks
  std::chrono::seconds limit{60};
};

size_t machineOf(const Job& job, size_t rank);

// Runs body(communicator) on every rank. Returns one Status per rank, which is the first failure of
// the rank's start, body or end, or success. If a rank exceeds the time limit, the process ends
// with a message, because a blocked thread cannot be stopped.
using Body = std::function<Status(Communicator&)>;
std::vector<Status> runRanks(const Job& job, const Body& body);
// Joins all failures into one text, as in EXPECT_EQ(failures(...), "").
std::string failures(const std::vector<Status>& outcomes);

}  // namespace bps::test
