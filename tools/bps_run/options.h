// The command line of bps-run.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace bps {

struct RunOptions {
  size_t workers = 0;             // number of worker machines
  std::optional<size_t> servers;  // if unset, the run uses BPS_SERVERS of the environment
  size_t ranksPerMachine = 1;
  bool allOutput = false;
  double timeoutSeconds = 0;  // 0 means no time limit
  std::vector<std::string> command;

  size_t ranks() const { return workers * ranksPerMachine; }
};

// The parsed command line. `exit` is set after --help or a usage error. `exit` is then the exit
// status of bps-run, and the text is already printed.
struct ParsedOptions {
  RunOptions options;
  std::optional<int> exit;
};

ParsedOptions parseOptions(int argc, char** argv);

}  // namespace bps
