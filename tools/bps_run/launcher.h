// Launcher: one run of bps-run from start to end. One thread, one poll loop.
//
// Start the servers and wait until they listen; start the ranks; wait until all have ended, one has failed, a signal
// came or the time is up. Then end what is left: the other ranks get a moment to say on their own why they fail too,
// then SIGTERM, and SIGKILL after a grace; the servers get SIGTERM and must drain and exit.
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

  // The status to exit with.
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
  // Runs the loop until no member is left or the deadline passes; a second signal from the user ends it too.
  void waitExit(const RunProcesses& processes, Deadline deadline);
  // One turn of the loop: sleeps until something happens, at most to the deadline.
  void step(Deadline deadline);
  void readSignals();
  void pollExits();
  void fail(int status, const std::string& why);

  const RunOptions options_;
  Reaper reaper_;
  UniqueFd signals_;
  RunProcesses servers_, ranks_;
  std::vector<std::string> addresses_;  // of the servers; empty: does not listen yet
  Deadline end_ = Deadline::never();    // of it all, as the user wants
  int status_ = 0;                      // the first failure's
  int signal_ = 0;                      // the user's last
  int interrupts_ = 0;                  // how many came
};

}  // namespace bps
