// bps-topo: explains what bps would do on a machine or cluster, without doing it.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <initializer_list>
#include <string>

#include "cpu_reduce/dispatch.h"
#include "src/base/env.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "tools/bps_topo/machine_json.h"
#include "tools/bps_topo/machine_report.h"
#include "tools/bps_topo/network/listen.h"
#include "tools/bps_topo/probe.h"
#include "tools/bps_topo/split_report.h"
#include "tools/command_line/command_line.h"
#include "topo/load_topology.h"

namespace bps {
namespace {

struct Options {
  bool env = false;
  bool envMarkdown = false;
  SplitRequest split{.workers = 0, .servers = 0, .workerGbps = {100}, .serverGbps = {100}, .bytes = 0};
  MachineReportRequest machine;
  std::string bytes = "1G";
  std::string svg, out, listen, peer;
  bool json = false;
};

void declareTopology(CommandLine& line, Options& options) {
  line.option("--topo", options.machine.topology,
              "NCCL or hwloc XML file, or a machine in one line, as cpu[sw[gpu*4] nic] cpu[sw[gpu*4]]; without "
              "it BPS_TOPO_FILE, else this machine");
  line.flag("--json", options.json, "print JSON");
}

void declareJob(CommandLine& line, Options& options) {
  line.option("--bytes", options.bytes, "size of the all-reduce (default 1G)");
  line.option("--gpus", options.machine.gpus, "GPU of each local rank, -1 for host memory; without it one on each");
  line.option("--roots", options.machine.roots, "how many roots take turns in rooted; without it as few as do best");
}

void declarePlan(CommandLine& line, Options& options) {
  constexpr size_t kMost = 1U << 20;
  declareTopology(line, options);
  declareJob(line, options);
  line.option("--workers", options.split.workers, "worker machines: the split between machines instead of one's inside",
              ValueRange{1, kMost});
  line.option("--servers", options.split.servers, "summation servers", ValueRange{0, kMost});
  line.option("--worker-gbps", options.split.workerGbps,
              "NIC rate of the workers, Gbit/s: one, or one for each (default 100)");
  line.option("--server-gbps", options.split.serverGbps, "the same of the servers; 0: not there (default 100)");
}

// What would have no effect is refused.
Status checkShow(const CommandLine& line) {
  return line.has("topology") ? line.refuse({"--topo"}, "and a topology without it: one of them is enough") : Status();
}

Status checkPlan(const CommandLine& line, const Options& options) {
  if (options.split.workers == 0)
    return line.refuse({"--servers", "--worker-gbps", "--server-gbps"},
                       "needs --workers: it is of the split between machines");
  if (options.split.servers == 0) BPS_TRY(line.refuse({"--server-gbps"}, "needs --servers"));
  if (options.json) return {};
  return line.refuse(
      {"--topo", "--gpus", "--roots"},
      "has no effect on the text of --workers, which is of the split alone: leave one out, or ask for --json");
}

Status checkProbe(const CommandLine& line, const Options& options) {
  if (options.listen.empty()) return {};
  return line.refuse({"--peer", "--out", "--topo", "--json"},
                     "has no effect with --listen, which only serves: it belongs to the other machine's");
}

Result<MachineReport> machine(Options& options) {
  auto bytes = parseBytes(options.bytes);
  if (!bytes.ok()) return std::move(bytes).status().within("--bytes " + options.bytes);
  options.machine.bytes = std::move(bytes).value();
  return makeMachineReport(options.machine, BPS_TRY(processEnv()));
}

Status runShow(Options& options) {
  const MachineReport report = BPS_TRY(machine(options));
  const Env env = BPS_TRY(processEnv());
  BPS_TRY(cpu::chooseTarget(env.cpuTarget));
  nlohmann::ordered_json json = showJson(report);
  json["kernels"] = cpu::describeKernels();
  if (options.json) fmt::print("{}\n", json.dump(2));
  else fmt::print("{}CPU kernels: {}\n", showText(report), cpu::describeKernels());
  return options.svg.empty() ? Status() : writeText(options.svg, showSvg(report));
}

// With --workers the text is that of the split alone; JSON holds both.
Status runPlan(Options& options) {
  nlohmann::ordered_json split = nlohmann::ordered_json::object();
  if (options.split.workers > 0) {
    auto bytes = parseBytes(options.bytes);
    if (!bytes.ok()) return std::move(bytes).status().within("--bytes " + options.bytes);
    options.split.bytes = std::move(bytes).value();
    const SplitReport report = BPS_TRY(makeSplitReport(options.split));
    options.machine.network = workerTraffic(options.split.workers, report.shares.workers.front());
    if (!options.json) {
      fmt::print("{}", splitText(report));
      return {};
    }
    split = splitJson(report);
  }
  const MachineReport report = BPS_TRY(machine(options));
  if (!options.json) {
    fmt::print("{}", planText(report));
    return {};
  }
  nlohmann::ordered_json json = planJson(report);
  json.update(split);
  fmt::print("{}\n", json.dump(2));
  return {};
}

// Nothing but a signal ends the one that listens. The other one's status is 1 when something that was asked for could
// not be measured; what could is written all the same.
Result<int> runProbe(Options& options) {
  const Env env = BPS_TRY(processEnv());
  if (!options.listen.empty()) return listenForProbes(options.listen, env);  // only a failure comes back
  const std::string& source = options.machine.topology.empty() ? env.topologySource() : options.machine.topology;
  TopologyBuilder builder = BPS_TRY(loadTopologyBuilder(source));
  const std::vector<ProbeResult> results = BPS_TRY(probeMachine(builder, env, options.peer));
  fmt::print("{}", options.json ? probeJson(results) : probeText(results));
  if (!options.out.empty()) {
    const Topology topology = BPS_TRY(builder.build());
    BPS_TRY(writeTopology(topology, options.out));
  }
  return std::any_of(results.begin(), results.end(), [](const ProbeResult& measure) { return measure.failed; }) ? 1 : 0;
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line(
      "bps-topo",
      "Shows what bps would do here: its settings, the split of an all-reduce over workers and servers, and "
      "the way of the data inside a machine.");
  line.flag("--env", options.env, "every environment variable, the value in force and where it comes from");
  line.flag("--env-md", options.envMarkdown, "the same table with defaults, as the README has it");
  CommandLine& show = line.command("show", "this machine, or that of a file, and what bps uses of it");
  declareTopology(show, options);
  declareJob(show, options);
  show.option("topology", options.machine.topology, "the same as --topo");
  show.option("--svg", options.svg, "also draw it, with the traffic on each link, to this file");
  CommandLine& plan =
      line.command("plan", "inside a machine: strategies, their times, who does what, bytes on each link");
  declarePlan(plan, options);
  CommandLine& probe = line.command("probe", "measures this machine");
  declareTopology(probe, options);
  probe.option("-o,--out", options.out, "writes the topology with what was measured, for BPS_TOPO_FILE");
  probe.option("--peer", options.peer,
               "HOST:PORT of a bps-topo probe --listen on another machine: measures the NICs too");
  probe.option("--listen", options.listen,
               "measures nothing, is the other end: [ADDR:]PORT (ADDR: default first usable interface; port 7701)");
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  const EnvText table = options.env ? envText(nullptr, nullptr) : EnvText();
  fmt::print("{}", table.text);
  if (options.envMarkdown) fmt::print("{}", envMarkdown());
  Status status;
  if (show.given()) status = checkShow(show);
  if (plan.given()) status = checkPlan(plan, options);
  if (probe.given()) status = checkProbe(probe, options);
  if (!status.ok()) return line.printUsageError(status.message());
  if (show.given()) status = guarded([&] { return runShow(options); });
  if (plan.given()) status = guarded([&] { return runPlan(options); });
  int incomplete = table.wrong > 0 ? 1 : 0;
  if (probe.given())
    status = guarded([&]() -> Status {
      incomplete = BPS_TRY(runProbe(options));
      return {};
    });
  if (!status.ok()) return line.printUsageError(status.message());
  const bool asked = options.env || options.envMarkdown || show.given() || plan.given() || probe.given();
  if (asked && std::fflush(stdout) != 0) return line.printUsageError("standard output cannot be written");
  return asked ? incomplete : line.printUsageError("nothing to do");
}

}  // namespace
}  // namespace bps

int main(int argc, char** argv) { return bps::main(argc, argv); }
