// The command line of bps-run.
#pragma once
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/bps_run/hosts.h"

namespace bps {

struct RunOptions {
  size_t workers = 0;             // number of simulated worker machines; 0 if there are `hosts`
  std::optional<size_t> servers;  // if unset, the run uses BPS_SERVERS of the environment
  size_t ranksPerMachine = 1;
  bool allOutput = false;
  double timeoutSeconds = 0;            // 0 means no time limit
  std::vector<WorkerHost> hosts;        // real worker machines
  std::vector<ServerHost> serverHosts;  // real machines for servers
  std::vector<std::string> ssh;         // program and arguments that take HOST and a command
  std::vector<std::string> exported;    // more variables that the processes on other machines get
  std::vector<std::string> command;

  // Returns the number of ranks of machine i.
  size_t ranksOf(size_t machine) const { return hosts.empty() ? ranksPerMachine : hosts[machine].ranks; }
  size_t machines() const { return hosts.empty() ? workers : hosts.size(); }
  size_t ranks() const {
    size_t sum = 0;
    for (size_t machine = 0; machine < machines(); ++machine) sum += ranksOf(machine);
    return sum;
  }
  // True if bps-run starts servers.
  bool startsServers() const { return servers.value_or(0) > 0 || !serverHosts.empty(); }
};

// The parsed command line. `exit` is set after --help or a usage error. `exit` is then the exit
// status of bps-run, and the text is already printed.
struct ParsedOptions {
  RunOptions options;
  std::optional<int> exit;
};

ParsedOptions parseOptions(int argc, char** argv);

}  // namespace bps
