// The command line of bps-run.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace bps {

struct RunOptions {
  size_t workers = 0;             // worker machines
  std::optional<size_t> servers;  // unset: use BPS_SERVERS of the environment
  size_t ranksPerMachine = 1;
  bool allOutput = false;
  double timeoutSeconds = 0;  // 0: no limit
  std::vector<std::string> command;

  size_t ranks() const { return workers * ranksPerMachine; }
};

// The parsed command line. `exit` is set after --help or a usage error: the exit status, once the text is printed.
struct ParsedOptions {
  RunOptions options;
  std::optional<int> exit;
};

ParsedOptions parseOptions(int argc, char** argv);

}  // namespace bps
