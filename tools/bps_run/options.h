// The command line of bps-run.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace bps {

struct RunOptions {
  size_t workers = 0;             // machines
  std::optional<size_t> servers;  // not given: the BPS_SERVERS of the environment
  size_t ranksPerMachine = 1;
  bool allOutput = false;
  double timeoutSeconds = 0;  // 0: none
  std::vector<std::string> command;

  size_t ranks() const { return workers * ranksPerMachine; }
};

// What the command line says, or, for --help and mistakes, the status to exit with once the text has been printed.
struct ParsedOptions {
  RunOptions options;
  std::optional<int> exit;
};

ParsedOptions parseOptions(int argc, char** argv);

}  // namespace bps
