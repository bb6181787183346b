#include "tools/bps_run/options.h"

#include <fmt/core.h>

#include "tools/command_line/command_line.h"

namespace bps {
namespace {

constexpr size_t kMaxProcesses = 4096;

void declare(CommandLine& line, RunOptions& options) {
  line.option("-n,--workers", options.workers, "worker machines to play on this one", ValueRange{1, kMaxProcesses});
  line.option("-s,--servers", options.servers,
              "summation servers to start here; not given: those of BPS_SERVERS, if any", ValueRange{0, kMaxProcesses});
  line.option("-m,--ranks-per-machine", options.ranksPerMachine, "ranks that share a machine (default 1)",
              ValueRange{1, kMaxProcesses});
  line.flag("-v,--all-output", options.allOutput,
            "show the output of all ranks and servers, with a prefix but for rank 0's");
  line.option("--timeout", options.timeoutSeconds, "end everything after so many seconds, with status 124",
              ValueRange{0.001, 1e9});
  line.rest(options.command);
  line.footer(
      "It sets for every rank:\n"
      "  BPS_RANK, BPS_NRANKS   which rank it is, of how many\n"
      "  BPS_HOSTID             which worker machine it plays\n"
      "  BPS_ROOT               a free port of 127.0.0.1, where rank 0 meets the others\n"
      "  BPS_SERVERS            with -s: the servers that it has started; else as it is\n"
      "  BPS_KEY_FILE           with -s, or where it is unset: a key of this run\n"
      "  BPS_SOCKET_IFNAME      lo, where neither it nor NCCL_SOCKET_IFNAME is set and all servers are on loopback\n"
      "All else is inherited. Rank 0's output is shown, that of the others with -v, or its last lines when something "
      "fails.\n"
      "When a rank fails all are ended, and its status (128 + signal for a signal) is that of bps-run.");
}

// What is left after our options: the command, perhaps behind a "--"; an option here is none of ours.
std::optional<int> checkCommand(const CommandLine& line, const RunOptions& options, std::vector<std::string>& command) {
  if (!command.empty() && command.front() == "--") {
    command.erase(command.begin());
  } else if (!command.empty() && command.front().size() > 1 && command.front().front() == '-') {
    return line.printUsageError("unknown option " + command.front());
  }
  if (!line.has("--workers"))
    return line.printUsageError(command.empty() ? "-n WORKERS is required"
                                                : "-n WORKERS is required, before COMMAND: what follows " +
                                                      command.front() + " is its own");
  if (command.empty()) return line.printUsageError("no COMMAND to run");
  if (options.ranks() > kMaxProcesses) return line.printUsageError(fmt::format("more than {} ranks", kMaxProcesses));
  return {};
}

}  // namespace

ParsedOptions parseOptions(int argc, char** argv) {
  ParsedOptions parsed;
  CommandLine line("bps-run",
                   "bps-run -n WORKERS [-s SERVERS] [-m RANKS_PER_MACHINE] [--] COMMAND...\n"
                   "Runs COMMAND once for each rank of so many worker machines, all of them on this machine, and "
                   "the\nbps-server beside bps-run as each summation server. Options stand before COMMAND.");
  declare(line, parsed.options);
  parsed.exit = line.parse(argc, argv);
  if (!parsed.exit) parsed.exit = checkCommand(line, parsed.options, parsed.options.command);
  return parsed;
}

}  // namespace bps
