// bps-topo: shows what bps would do on a machine or cluster, without running a job.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <string>

#include "cpu_reduce/dispatch.h"
#include "src/base/env.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "tools/bps_topo/fabric/detect.h"
#include "tools/bps_topo/fabric/fabric_report.h"
#include "tools/bps_topo/fabric/level_interfaces.h"
#include "tools/bps_topo/fabric/neighbours.h"
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
  FabricRequest fabric;
  MachineReportRequest machine;
  std::string bytes = "1G";
  std::string svg, out, listen, peer, fabricAction;
  std::vector<std::string> interfaces;
  bool json = false;
};

void declareTopology(CommandLine& line, Options& options) {
  line.option("--topo", options.machine.topology,
              "NCCL or hwloc XML file, or a machine in one line, such as 'cpu[sw[gpu*4] nic] cpu[sw[gpu*4]]' "
              "(default: BPS_TOPO_FILE, else this machine)");
  line.flag("--json", options.json, "print JSON");
}

void declareJob(CommandLine& line, Options& options) {
  line.option("--bytes", options.bytes, "size of the all-reduce (default 1G)");
  line.option("--gpus", options.machine.gpus, "GPU of each local rank, -1 for host memory (default: one rank per GPU)");
  line.option("--roots", options.machine.roots, "number of roots of rooted (default: the fewest that are fastest)");
}

void declarePlan(CommandLine& line, Options& options) {
  constexpr size_t kMost = 1U << 20;
  declareTopology(line, options);
  declareJob(line, options);
  line.option("--workers", options.split.workers, "number of worker machines: plan the split between machines",
              ValueRange{1, kMost});
  line.option("--servers", options.split.servers, "number of summation servers", ValueRange{0, kMost});
  line.option("--worker-gbps", options.split.workerGbps,
              "NIC rate of the workers in Gbit/s: one value, or one per worker (default 100)");
  line.option("--server-gbps", options.split.serverGbps, "NIC rate of the servers in Gbit/s; 0: absent (default 100)");
  line.option("--fabric", options.fabric.shape,
              "bcube:N,K or hypercube:K: plan an all-reduce on this network, and compare it with others");
  line.option("--link-gbps", options.fabric.linkGbps, "rate of every link of the fabric in Gbit/s (default 10)");
  line.option(
      "--svg", options.svg,
      "also draw the machine to this file, with the bytes that the plan sends over each link; with --fabric, draw "
      "the times of the compared networks");
}

// Rejects options that have no effect with `show`.
Status checkShow(const CommandLine& line) {
  return line.has("topology") ? line.refuse({"--topo"}, "and a topology argument were given, expected only one of them")
                              : Status();
}

Status checkPlan(const CommandLine& line, const Options& options) {
  if (options.fabric.shape.empty()) {
    BPS_TRY(line.refuse({"--link-gbps"}, "needs --fabric"));
  } else {
    if (!(options.fabric.linkGbps > 0) || !std::isfinite(options.fabric.linkGbps))
      return failure(Code::kInvalidArgument, "--link-gbps {:g}: must be more than 0, and finite",
                     options.fabric.linkGbps);
    return line.refuse({"--workers", "--servers", "--worker-gbps", "--server-gbps", "--topo", "--gpus", "--roots"},
                       "and --fabric exclude each other");
  }
  if (options.split.workers == 0)
    return line.refuse({"--servers", "--worker-gbps", "--server-gbps"},
                       "needs --workers: it applies to the split between machines");
  if (options.split.servers == 0) BPS_TRY(line.refuse({"--server-gbps"}, "needs --servers"));
  if (options.json || !options.svg.empty()) return {};
  return line.refuse(
      {"--topo", "--gpus", "--roots"},
      "has no effect on the text of --workers, which shows only the split: leave one out, or add --json or --svg");
}

Status checkProbe(const CommandLine& line, const Options& options) {
  if (options.listen.empty()) return {};
  return line.refuse({"--peer", "--out", "--topo", "--json"},
                     "has no effect with --listen, which only serves: give it on the other machine");
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

Status planFabric(Options& options) {
  auto bytes = parseBytes(options.bytes);
  if (!bytes.ok()) return std::move(bytes).status().within("--bytes " + options.bytes);
  options.fabric.bytes = std::move(bytes).value();
  if (options.json) fmt::print("{}\n", BPS_TRY(fabricJson(options.fabric)).dump(2));
  else fmt::print("{}", BPS_TRY(fabricText(options.fabric)));
  return options.svg.empty() ? Status() : writeText(options.svg, BPS_TRY(fabricSvg(options.fabric)));
}

// Prints the plan. With --workers, the text shows only the split between machines, and the JSON
// and the picture contain the plan of the machine.
Status runPlan(Options& options) {
  if (!options.fabric.shape.empty()) return planFabric(options);
  nlohmann::ordered_json split = nlohmann::ordered_json::object();
  if (options.split.workers > 0) {
    auto bytes = parseBytes(options.bytes);
    if (!bytes.ok()) return std::move(bytes).status().within("--bytes " + options.bytes);
    options.split.bytes = std::move(bytes).value();
    const SplitReport report = BPS_TRY(makeSplitReport(options.split));
    options.machine.network = workerTraffic(options.split.workers, report.shares.workers.front());
    if (!options.json) fmt::print("{}", splitText(report));
    if (!options.json && options.svg.empty()) return {};
    split = splitJson(report);
  }
  const MachineReport report = BPS_TRY(machine(options));
  if (options.json) {
    nlohmann::ordered_json json = planJson(report);
    json.update(split);
    fmt::print("{}\n", json.dump(2));
  } else if (options.split.workers == 0) {
    fmt::print("{}", planText(report));
  }
  return options.svg.empty() ? Status() : writeText(options.svg, planSvg(report));
}

// With --listen, runs until a signal ends the process. Otherwise, returns the exit status 1 if a
// requested measurement failed. The other results are still written.
Result<int> runProbe(Options& options) {
  const Env env = BPS_TRY(processEnv());
  if (!options.listen.empty()) return listenForProbes(options.listen, env);  // returns only with a failure
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

void declareFabric(CommandLine& line, Options& options) {
  line.choice("action", options.fabricAction, "detect: ask the neighbours whether the network is a BCube", {"detect"});
  line.require("action");
  line.option("--interfaces", options.interfaces,
              "interfaces of the levels, that of level 0 first, separated by commas (default: those of "
              "BPS_SOCKET_IFNAME)");
}

// Prints what answers, and the proposal if the network is a BCube.
Status runFabric(const Options& options) {
  constexpr std::chrono::seconds kLongest(60);
  const Env env = BPS_TRY(processEnv());
  const std::vector<Interface> interfaces = BPS_TRY(chooseInterfaces(options.interfaces, env.socketIfname));
  BPS_TRY(checkInterfaces(interfaces));
  const std::vector<std::vector<Address>> answers = BPS_TRY(askNeighbours(interfaces, Deadline::in(kLongest)));
  std::vector<LevelSurvey> levels;
  for (size_t level = 0; level < interfaces.size(); ++level) levels.push_back({interfaces[level], answers[level]});
  fmt::print("{}", surveyText(levels));
  std::fflush(stdout);  // before the error, if there is one
  fmt::print("{}", proposalText(BPS_TRY(proposeFabric(levels))));
  return {};
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line(
      "bps-topo",
      "Shows what bps would do here: its settings, the split of an all-reduce over workers and servers, and "
      "the data path inside a machine.");
  line.flag("--env", options.env, "print every environment variable, its effective value and where that comes from");
  line.flag("--env-md", options.envMarkdown, "print the same table with defaults, as in docs/environment.md");
  CommandLine& show = line.command("show", "show this machine, or a machine from a file, and how bps uses it");
  declareTopology(show, options);
  declareJob(show, options);
  show.option("topology", options.machine.topology, "same as --topo");
  show.option("--svg", options.svg, "also draw the machine to this file: devices, bus ids and rates of links");
  CommandLine& plan =
      line.command("plan", "plan one machine: strategies, their times, the role of each rank, bytes on each link");
  declarePlan(plan, options);
  CommandLine& probe = line.command("probe", "measure this machine");
  declareTopology(probe, options);
  probe.option("-o,--out", options.out, "write the topology with the measured rates to this file, for BPS_TOPO_FILE");
  probe.option("--peer", options.peer,
               "HOST:PORT of a bps-topo probe --listen on another machine: measure the NICs too");
  probe.option(
      "--listen", options.listen,
      "be the remote end for --peer, measure nothing: [ADDR:]PORT (default: first usable interface, port 7701)");
  CommandLine& fabric = line.command("fabric", "find out whether the network of this machine is a BCube");
  declareFabric(fabric, options);
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
  if (fabric.given()) status = guarded([&] { return runFabric(options); });
  int incomplete = table.wrong > 0 ? 1 : 0;
  if (probe.given())
    status = guarded([&]() -> Status {
      incomplete = BPS_TRY(runProbe(options));
      return {};
    });
  if (!status.ok()) return line.printUsageError(status.message());
  const bool asked =
      options.env || options.envMarkdown || show.given() || plan.given() || probe.given() || fabric.given();
  if (asked && std::fflush(stdout) != 0) return line.printUsageError("standard output cannot be written");
  return asked ? incomplete : line.printUsageError("nothing to do");
}

}  // namespace
}  // namespace bps

int main(int argc, char** argv) { return bps::main(argc, argv); }
