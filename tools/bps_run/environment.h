// Computes the environment variables of the ranks and servers of one run.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "tools/bps_run/options.h"

namespace bps {

// Maps the name of a variable to its new value. A missing value means that the variable is unset.
using EnvChanges = std::map<std::string, std::optional<std::string>>;

// Returns the environment of this process with the changes applied. Each string is NAME=VALUE.
std::vector<std::string> environmentWith(const EnvChanges& changes);
std::string environmentValue(const char* name);  // empty if the variable is unset

// Returns the variables that all processes of the run get: the key, the rendezvous address and the
// servers. `servers` lists the servers that bps-run has started. The variables also select the
// loopback interface if all servers are on this machine and the user has not chosen an interface.
Result<EnvChanges> commonEnv(const RunOptions& options, const std::string& keyPath,
                             const std::vector<std::string>& servers);
// Returns the variables that a process on another machine gets: BPS_*, NCCL_* and `exported` of this process, with the
// changes applied.
std::map<std::string, std::string> remoteEnvironment(const EnvChanges& changes,
                                                     const std::vector<std::string>& exported);
bool isVariableName(const std::string& name);

// Returns the variables that one rank gets in addition to those of commonEnv().
EnvChanges rankEnv(const RunOptions& options, size_t rank);

// Finds the program by the rules of execvp. If the program cannot be run, `status` is the exit
// status that a shell would use: 126 or 127.
struct Program {
  std::string path;
  int status = 0;
};
Program findProgram(const std::string& name);

}  // namespace bps
