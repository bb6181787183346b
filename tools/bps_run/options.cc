#include "tools/bps_run/options.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>

namespace bps {
namespace {

constexpr int kUsageError = 2;
constexpr size_t kMostProcesses = 4096;

void declare(CLI::App& app, RunOptions& options) {
  app.name("bps-run");
  app.prefix_command();
  app.add_option("-n,--workers", options.workers, "worker machines to play on this one")
      ->required()
      ->check(CLI::Range(size_t{1}, kMostProcesses));
  app.add_option("-s,--servers", options.servers,
                 "summation servers to start here; not given: those of BPS_SERVERS, if any")
      ->check(CLI::Range(size_t{0}, kMostProcesses));
  app.add_option("-m,--ranks-per-machine", options.ranksPerMachine, "ranks that share a machine (default 1)")
      ->check(CLI::Range(size_t{1}, kMostProcesses));
  app.add_flag("-v,--all-output", options.allOutput, "show the output of all ranks and servers, with a prefix");
  app.add_option("--timeout", options.timeoutSeconds, "end everything after so many seconds, with status 124")
      ->check(CLI::PositiveNumber);
  app.footer(
      "Every worker gets BPS_RANK, BPS_NRANKS, BPS_ROOT, BPS_HOSTID, BPS_SERVERS and BPS_KEY_FILE. When a rank fails\n"
      "all are ended, and its status (128 + signal for a signal) is that of bps-run.");
}

int complain(const std::string& what) {
  fmt::print(stderr, "bps-run: {} (see bps-run --help)\n", what);
  return kUsageError;
}

// What is left after our options: the command, perhaps behind a "--"; an option here is none of ours.
std::optional<int> takeCommand(std::vector<std::string> rest, RunOptions& options) {
  if (!rest.empty() && rest.front() == "--") {
    rest.erase(rest.begin());
  } else if (!rest.empty() && rest.front().size() > 1 && rest.front().front() == '-') {
    return complain("unknown option " + rest.front());
  }
  if (rest.empty()) return complain("no COMMAND to run");
  options.command = std::move(rest);
  return {};
}

}  // namespace

ParsedOptions parseOptions(int argc, char** argv) {
  ParsedOptions parsed;
  CLI::App app(
      "bps-run -n WORKERS [-s SERVERS] [-m RANKS_PER_MACHINE] [--] COMMAND...\n"
      "Runs COMMAND as the workers of an all-reduce on this machine, with local summation servers.");
  declare(app, parsed.options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    parsed.exit = 0;
    return parsed;
  } catch (const CLI::ParseError& error) {
    parsed.exit = complain(error.what());
    return parsed;
  }
  parsed.exit = takeCommand(app.remaining(), parsed.options);
  if (!parsed.exit && parsed.options.ranks() > kMostProcesses)
    parsed.exit = complain(fmt::format("more than {} ranks", kMostProcesses));
  return parsed;
}

}  // namespace bps
