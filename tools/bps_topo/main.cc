// bps-topo: explains what bps would do on a machine or cluster, without doing it.
#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>

#include "cpu_reduce/dispatch.h"
#include "src/base/env.h"
#include "tools/bps_topo/split_report.h"

namespace bps {
namespace {

constexpr int kUsageError = 2;

struct Options {
  bool env = false;
  bool envMarkdown = false;
  SplitRequest split{.workers = 0, .servers = 0, .workerGbps = {100}, .serverGbps = {100}, .bytes = 0};
  std::string bytes = "1G";
  bool json = false;
};

int complain(const std::string& what) {
  fmt::print(stderr, "bps-topo: {} (see bps-topo --help)\n", what);
  return kUsageError;
}

void declarePlan(CLI::App& plan, Options& options) {
  constexpr size_t kMost = 1U << 20;
  plan.add_option("--workers", options.split.workers, "worker machines")
      ->required()
      ->check(CLI::Range(size_t{1}, kMost));
  plan.add_option("--servers", options.split.servers, "summation servers")->check(CLI::Range(size_t{0}, kMost));
  plan.add_option("--worker-gbps", options.split.workerGbps, "NIC rate of the workers, Gbit/s: one, or one for each")
      ->delimiter(',')
      ->capture_default_str();
  plan.add_option("--server-gbps", options.split.serverGbps, "the same of the servers; 0: not there")
      ->delimiter(',')
      ->capture_default_str();
  plan.add_option("--bytes", options.bytes, "size of the all-reduce")->capture_default_str();
  plan.add_flag("--json", options.json, "print JSON");
}

int runPlan(Options& options) {
  auto bytes = parseBytes(options.bytes);
  if (!bytes.ok()) return complain(fmt::format("--bytes {}: {}", options.bytes, bytes.error().message()));
  options.split.bytes = std::move(bytes).value();
  auto report = makeSplitReport(options.split);
  if (!report.ok()) return complain(report.error().message());
  const SplitReport made = std::move(report).value();
  fmt::print("{}", options.json ? splitJson(made) : splitText(made));
  return 0;
}

int runShow() {
  auto env = processEnv();
  if (!env.ok()) return complain(env.error().message());
  const Status chosen = cpu::chooseTarget(std::move(env).value().cpuTarget);
  if (!chosen.ok()) return complain(chosen.message());
  fmt::print("CPU kernels: {}\n", cpu::describeKernels());
  return 0;
}

int main(int argc, char** argv) {
  Options options;
  CLI::App app("Shows what bps would do here: its settings, and the split of an all-reduce over workers and servers.");
  app.name("bps-topo");
  app.add_flag("--env", options.env, "every environment variable, the value in force and where it comes from");
  app.add_flag("--env-md", options.envMarkdown, "the same table with defaults, as the README has it");
  CLI::App* plan = app.add_subcommand("plan", "shares, traffic and time of N workers and K servers");
  declarePlan(*plan, options);
  CLI::App* show = app.add_subcommand("show", "what bps finds on this machine");
  app.add_subcommand("probe", "not in this version")->allow_extras()->group("Later");
  app.require_subcommand(0, 1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    fmt::print("{}", app.help());
    return 0;
  } catch (const CLI::ParseError& error) {
    return complain(error.what());
  }
  if (app.got_subcommand("probe")) return complain("probe is not in this version");
  if (options.env) fmt::print("{}", envText(nullptr));
  if (options.envMarkdown) fmt::print("{}", envMarkdown());
  if (show->parsed()) return runShow();
  if (plan->parsed()) return runPlan(options);
  return options.env || options.envMarkdown ? 0 : complain("nothing to do");
}

}  // namespace
}  // namespace bps

int main(int argc, char** argv) { return bps::main(argc, argv); }
