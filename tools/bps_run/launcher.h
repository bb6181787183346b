// Launcher: one run of bps-run from start to end. It has one thread and one poll loop.
//
// It starts the servers and waits until they listen, then starts the ranks. It waits until all ranks have ended, one
// has failed, a signal has arrived or the time limit has passed. Then it ends the remaining processes. The other ranks
// have a short time to report the failure themselves; then they get SIGTERM, and SIGKILL after a grace period. The
// servers get SIGTERM and must drain and exit.
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
#include "tools/bps_run/reaper.h"
#include "tools/bps_run/run_process.h"

namespace bps {

class Launcher {
 public:
  Launcher(RunOptions options, Reaper reaper);

  // Returns the exit status of bps-run.
  int run();

 private:
  using RunProcesses = std::vector<std::unique_ptr<RunProcess>>;

  Status startAll();
  Status startServers();
  Status startRanks(const EnvChanges& common);
  Status add(RunProcesses& processes, RunProcessSpec spec);
  Status waitListening();

  void supervise();
  void handleTimeout();
  void stopRanks();
  void stopServers();
  // Runs the loop until no process is left or the deadline passes. A second signal from the user also ends it.
  void waitExit(const RunProcesses& processes, Deadline deadline);
  // One iteration of the loop: sleeps until an event or the deadline.
  void step(Deadline deadline);
  void readSignals();
  void pollExits();
  void fail(int status, const std::string& why);

  const RunOptions options_;
  Reaper reaper_;
  UniqueFd signals_;
  RunProcesses servers_, ranks_;
  std::vector<std::string> addresses_;  // of the servers; empty: not listening yet
  Deadline end_ = Deadline::never();    // the user's time limit for the run
  int status_ = 0;                      // of the first failure
  int signal_ = 0;                      // the last one from the user
  int interrupts_ = 0;                  // number of signals from the user
};

}  // namespace bps
