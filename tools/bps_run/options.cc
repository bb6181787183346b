#include "tools/bps_run/options.h"

#include <fmt/core.h>

#include <sstream>

#include "src/base/format.h"
#include "tools/bps_run/environment.h"
#include "tools/command_line/command_line.h"

namespace bps {
namespace {

constexpr size_t kMaxProcesses = 4096;

struct HostTexts {
  std::string workers, servers, exported, ssh;
};

std::vector<std::string> items(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream text(list);
  for (std::string part; std::getline(text, part, ',');) parts.push_back(part);
  return parts;
}

void declare(CommandLine& line, RunOptions& options, HostTexts& hosts) {
  line.option("-n,--workers", options.workers, "worker machines to simulate on this one", ValueRange{1, kMaxProcesses});
  line.option("-s,--servers", options.servers, "summation servers to start here (default: use BPS_SERVERS, if set)",
              ValueRange{0, kMaxProcesses});
  line.option("-m,--ranks-per-machine", options.ranksPerMachine, "ranks that share a machine (default 1)",
              ValueRange{1, kMaxProcesses});
  line.option("-H,--host", hosts.workers,
              "HOST[:RANKS],...: real worker machines, started by ssh; in place of -n and -m");
  line.option("--servers-on", hosts.servers,
              "HOST[:PORT],...: machines for one server each (port 7700; 0: any free port)");
  line.option("-x", hosts.exported, "NAME,...: with -H: more variables that the ranks get (BPS_* and NCCL_* always)");
  line.option("--ssh", hosts.ssh, "program and options to use in place of ssh, such as \"ssh -p 2222\"");
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
      "With -H, BPS_HOSTID stays as it is, BPS_ROOT is a port of the first host if it is unset, and the ranks run in "
      "the "
      "same directory as bps-run, or in the home directory if a host does not have it.\n"
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
  if (!options.hosts.empty()) {
    const Status refused = line.refuse({"--workers", "--ranks-per-machine", "--servers"}, "-H");
    if (!refused.ok()) return line.printUsageError(refused.message());
  } else if (!line.has("--workers")) {
    return line.printUsageError(command.empty() ? "-n WORKERS or -H HOSTS is required"
                                                : "-n WORKERS or -H HOSTS is required before COMMAND: options after " +
                                                      command.front() + " belong to it");
  }
  if (command.empty()) return line.printUsageError("no COMMAND to run");
  if (options.ranks() > kMaxProcesses) return line.printUsageError(fmt::format("more than {} ranks", kMaxProcesses));
  return {};
}

// Reads the lists of machines, and checks what depends on them.
Status readHosts(const CommandLine& line, const HostTexts& texts, RunOptions& options) {
  auto workers = parseWorkerHosts(items(texts.workers));
  if (!workers.ok()) return std::move(workers).status().within("-H");
  auto servers = parseServerHosts(items(texts.servers));
  if (!servers.ok()) return std::move(servers).status().within("--servers-on");
  options.hosts = std::move(workers).value();
  options.serverHosts = std::move(servers).value();
  options.exported = items(texts.exported);
  if (options.hosts.empty()) BPS_TRY(line.refuse({"--servers-on", "-x", "--ssh"}, "simulated machines; give -H"));
  for (const std::string& name : options.exported)
    if (!isVariableName(name))
      return failure(Code::kInvalidArgument, "-x {}: not the name of a variable; the value is that of bps-run's", name);
  std::istringstream words(texts.ssh.empty() ? "ssh -o BatchMode=yes -o ConnectTimeout=10" : texts.ssh);
  for (std::string word; words >> word;) options.ssh.push_back(word);
  if (options.ssh.empty()) return {Code::kInvalidArgument, "--ssh: no program"};
  return {};
}

}  // namespace

ParsedOptions parseOptions(int argc, char** argv) {
  ParsedOptions parsed;
  CommandLine line(
      "bps-run",
      "bps-run -n WORKERS [-s SERVERS] [-m RANKS_PER_MACHINE] [--] COMMAND...\n"
      "bps-run -H HOST[:RANKS],... [--servers-on HOST[:PORT],...] [--] COMMAND...\n"
      "With -n, simulates WORKERS worker machines on this machine: runs COMMAND once per rank, and the bps-server "
      "beside bps-run\nonce per summation server. With -H, runs COMMAND on several machines, by ssh. Options of "
      "bps-run come before COMMAND.");
  HostTexts hosts;
  declare(line, parsed.options, hosts);
  parsed.exit = line.parse(argc, argv);
  if (!parsed.exit) {
    const Status read = readHosts(line, hosts, parsed.options);
    if (!read.ok()) parsed.exit = line.printUsageError(read.message());
  }
  if (!parsed.exit) parsed.exit = checkCommand(line, parsed.options, parsed.options.command);
  return parsed;
}

}  // namespace bps
