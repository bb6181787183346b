// What the workers and servers of one run find in their environment.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "tools/bps_run/options.h"

namespace bps {

// A value, or nothing where the variable is to be unset.
using EnvChanges = std::map<std::string, std::optional<std::string>>;

// This process's environment with the changes, as NAME=VALUE.
std::vector<std::string> environmentWith(const EnvChanges& changes);
std::string environmentValue(const char* name);  // empty: not set

// What all processes of the run get: the key, the meeting point, the servers (`servers`: those started here), and the
// loopback interface where nothing outside this machine takes part and the user has not chosen.
Result<EnvChanges> commonEnv(const RunOptions& options, const std::string& keyPath,
                             const std::vector<std::string>& servers);
// What is one rank's own, beside the common ones.
EnvChanges rankEnv(const RunOptions& options, size_t rank);

// The program as execvp would find it, or why it cannot be run (an exit status as a shell's: 126 or 127).
struct Program {
  std::string path;
  int status = 0;
};
Program findProgram(const std::string& name);

}  // namespace bps
