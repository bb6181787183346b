// Launcher: one run of bps-run from start to end, with one thread and one poll loop.
//
// The launcher starts the servers, waits until they listen, and then starts the ranks. The launcher
// waits until all ranks have ended, a rank has failed, a signal has arrived, or the time limit has
// passed. Then the launcher ends the remaining processes. After a failure, the other ranks have a
// short time to report the failure themselves. Then all remaining ranks get SIGTERM and, after a
// grace period, SIGKILL. The servers get SIGTERM, which makes them finish their jobs and exit.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/fd.h"
#include "src/base/status.h"
#include "tools/bps_run/environment.h"
#include "tools/bps_run/options.h"
#include "tools/bps_run/process/run_process.h"
#include "tools/bps_run/reaper.h"

namespace bps {

class Launcher {
 public:
  Launcher(RunOptions options, Reaper reaper);

  // Runs the servers and the ranks. Returns the exit status of bps-run.
  int run();

 private:
  using RunProcesses = std::vector<std::unique_ptr<RunProcess>>;

  Status startAll();
  Status startServers();
  Status startRemoteServers();
  Status addServer(size_t server, ChildSpec process);
  // Makes the process that runs a program on another machine.
  Result<ChildSpec> remote(const std::string& host, const EnvChanges& changes, std::vector<std::string> command,
                           std::string alternative = {}) const;
  Status startRanks(const EnvChanges& common);
  Status add(RunProcesses& processes, RunProcessSpec spec);
  Status waitListening();

  void supervise();
  void handleTimeout();
  void stopRanks();
  void stopServers();
  // Runs the poll loop until no process is left, the deadline passes, or another signal from the
  // user arrives.
  void waitExit(const RunProcesses& processes, Deadline deadline);
  // Runs one iteration of the poll loop. Sleeps until an event or the deadline.
  void step(Deadline deadline);
  void readSignals();
  void pollExits();
  void fail(int status, const std::string& why);

  const RunOptions options_;
  Reaper reaper_;
  UniqueFd signals_;
  RunProcesses servers_, ranks_;
  std::vector<std::string> addresses_;  // addresses of the servers; empty until a server listens
  Deadline end_ = Deadline::never();    // the user's time limit for the run
  int status_ = 0;                      // the exit status of the first failure
  int signal_ = 0;                      // the last signal from the user
  int interrupts_ = 0;                  // the number of signals from the user
};

}  // namespace bps
