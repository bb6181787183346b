#include "tools/bps_run/options.h"

#include <fmt/core.h>

#include "tools/command_line/command_line.h"

namespace bps {
namespace {

constexpr size_t kMaxProcesses = 4096;

void declare(CommandLine& line, RunOptions& options) {
  line.option("-n,--workers", options.workers, "worker machines to simulate on this one", ValueRange{1, kMaxProcesses});
  line.option("-s,--servers", options.servers, "summation servers to start here (default: use BPS_SERVERS, if set)",
              ValueRange{0, kMaxProcesses});
  line.option("-m,--ranks-per-machine", options.ranksPerMachine, "ranks that share a machine (default 1)",
              ValueRange{1, kMaxProcesses});
  line.flag("-v,--all-output", options.allOutput, "show the output of all ranks and servers, prefixed except rank 0's");
  line.option("--timeout", options.timeoutSeconds, "end all processes after this many seconds, with status 124",
              ValueRange{0.001, 1e9});
  line.rest(options.command);
  line.footer(
      "It sets these variables for every rank:\n"
      "  BPS_RANK, BPS_NRANKS   the rank's number, and the number of ranks\n"
      "  BPS_HOSTID             the worker machine that it simulates\n"
      "  BPS_ROOT               a free port of 127.0.0.1 where rank 0 listens\n"
      "  BPS_SERVERS            with -s: the started servers; otherwise unchanged\n"
      "  BPS_KEY_FILE           with -s, or if unset: a new key for this run\n"
      "  BPS_SOCKET_IFNAME      lo, if neither it nor NCCL_SOCKET_IFNAME is set and all servers are on loopback\n"
      "Other variables are inherited. Rank 0's output is shown. Other output is shown with -v; without -v its last "
      "lines are shown if a process fails.\n"
      "If a rank fails, all are ended and bps-run exits with its status (128 + signal for a signal).");
}

// Checks the words after bps-run's options: the command, possibly after "--". An option in the
// place of the command is an unknown option.
std::optional<int> checkCommand(const CommandLine& line, const RunOptions& options, std::vector<std::string>& command) {
  if (!command.empty() && command.front() == "--") {
    command.erase(command.begin());
  } else if (!command.empty() && command.front().size() > 1 && command.front().front() == '-') {
    return line.printUsageError("unknown option " + command.front());
  }
  if (!line.has("--workers"))
    return line.printUsageError(command.empty() ? "-n WORKERS is required"
                                                : "-n WORKERS is required before COMMAND: options after " +
                                                      command.front() + " belong to it");
  if (command.empty()) return line.printUsageError("no COMMAND to run");
  if (options.ranks() > kMaxProcesses) return line.printUsageError(fmt::format("more than {} ranks", kMaxProcesses));
  return {};
}

}  // namespace

ParsedOptions parseOptions(int argc, char** argv) {
  ParsedOptions parsed;
  CommandLine line(
      "bps-run",
      "bps-run -n WORKERS [-s SERVERS] [-m RANKS_PER_MACHINE] [--] COMMAND...\n"
      "Simulates WORKERS worker machines on this machine: runs COMMAND once per rank, and the bps-server beside "
      "bps-run\nonce per summation server. Options of bps-run come before COMMAND.");
  declare(line, parsed.options);
  parsed.exit = line.parse(argc, argv);
  if (!parsed.exit) parsed.exit = checkCommand(line, parsed.options, parsed.options.command);
  return parsed;
}

}  // namespace bps
