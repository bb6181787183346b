// The environment of the workers and servers of one run.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "tools/bps_run/options.h"

namespace bps {

// New values by variable. No value means that the variable is unset.
using EnvChanges = std::map<std::string, std::optional<std::string>>;

// This process's environment with the changes applied, as NAME=VALUE.
std::vector<std::string> environmentWith(const EnvChanges& changes);
std::string environmentValue(const char* name);  // empty if unset

// The variables of all processes of the run: the key, the rendezvous address and the servers (`servers`: those that
// bps-run started). Also the loopback interface, if nothing outside this machine takes part and the user has not chosen
// an interface.
Result<EnvChanges> commonEnv(const RunOptions& options, const std::string& keyPath,
                             const std::vector<std::string>& servers);
// The variables of one rank, in addition to the common ones.
EnvChanges rankEnv(const RunOptions& options, size_t rank);

// Finds the program as execvp would. If it cannot be run, `status` is the exit status that a shell uses: 126 or 127.
struct Program {
  std::string path;
  int status = 0;
};
Program findProgram(const std::string& name);

}  // namespace bps
