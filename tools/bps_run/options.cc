#include "tools/bps_run/options.h"

#include <fmt/core.h>

#include "tools/command_line/command_line.h"

namespace bps {
namespace {

constexpr size_t kMostProcesses = 4096;

void declare(CommandLine& line, RunOptions& options) {
  line.option("-n,--workers", options.workers, "worker machines to play on this one", Within{1, kMostProcesses});
  line.require("--workers");
  line.option("-s,--servers", options.servers,
              "summation servers to start here; not given: those of BPS_SERVERS, if any", Within{0, kMostProcesses});
  line.option("-m,--ranks-per-machine", options.ranksPerMachine, "ranks that share a machine (default 1)",
              Within{1, kMostProcesses});
  line.flag("-v,--all-output", options.allOutput, "show the output of all ranks and servers, with a prefix");
  line.option("--timeout", options.timeoutSeconds, "end everything after so many seconds, with status 124",
              Within{0.001, 1e9});
  line.rest(options.command);
  line.footer(
      "Every worker gets BPS_RANK, BPS_NRANKS, BPS_ROOT, BPS_HOSTID, BPS_SERVERS and BPS_KEY_FILE. When a rank fails\n"
      "all are ended, and its status (128 + signal for a signal) is that of bps-run.");
}

// What is left after our options: the command, perhaps behind a "--"; an option here is none of ours.
std::optional<int> checkCommand(const CommandLine& line, std::vector<std::string>& command) {
  if (!command.empty() && command.front() == "--") {
    command.erase(command.begin());
  } else if (!command.empty() && command.front().size() > 1 && command.front().front() == '-') {
    return line.complain("unknown option " + command.front());
  }
  if (command.empty()) return line.complain("no COMMAND to run");
  return {};
}

}  // namespace

ParsedOptions parseOptions(int argc, char** argv) {
  ParsedOptions parsed;
  CommandLine line("bps-run",
                   "bps-run -n WORKERS [-s SERVERS] [-m RANKS_PER_MACHINE] [--] COMMAND...\n"
                   "Runs COMMAND as the workers of an all-reduce on this machine, with local summation servers.");
  declare(line, parsed.options);
  parsed.exit = line.parse(argc, argv);
  if (!parsed.exit) parsed.exit = checkCommand(line, parsed.options.command);
  if (!parsed.exit && parsed.options.ranks() > kMostProcesses)
    parsed.exit = line.complain(fmt::format("more than {} ranks", kMostProcesses));
  return parsed;
}

}  // namespace bps
