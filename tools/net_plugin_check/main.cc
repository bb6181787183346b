// net-plugin-check: checks whether an NCCL net plugin follows the rules on which NCCL relies, and
// measures the plugin's speed.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "src/base/env.h"
#include "tools/command_line/command_line.h"
#include "tools/net_plugin_check/bench/bench.h"
#include "tools/net_plugin_check/report.h"

namespace bps::check {
namespace {

struct ByteTexts {
  std::string maxBytes = "64M", benchBytes = "4M";
};

void declare(CommandLine& line, CheckOptions& options, ByteTexts& byteTexts) {
  line.option("PLUGIN", options.plugin, "path of the plugin, or the NAME in libnccl-net-NAME.so");
  line.option("--device", options.device, "check only this device (default: all)", ValueRange{0, 1023});
  line.option("--abi", options.newestAbi, "newest version of the interface to use (default 12)",
              ValueRange{kOldestAbi, kNewestAbi});
  line.flag("--threads", options.threads, "run the two sides as threads of one process");
  line.option("--only", options.only, "check only these rules; with --bench: round-trip, one-way, both-ways");
  line.flag("--list", options.list, "print the rules");
  line.option("--cycles", options.cycles, "number of cycles of the rule cycles (default 1000)", ValueRange{1, 1000000});
  line.option("--max-bytes", byteTexts.maxBytes, "largest message (default 64M)");
  line.option("--timeout", options.timeoutSeconds, "time limit of every wait in seconds (default 10)",
              ValueRange{0.1, 3600.0});
  line.option("--notice", options.noticeSeconds,
              "seconds within which the end of one side must be an error on the other (default 1)",
              ValueRange{0.01, 3600.0});
  line.option("--bench", options.bench, "only measure, this many times, and compare with a plain transport",
              ValueRange{1, 1000});
  line.choice("--against", options.against, "with --bench: compare with plain sockets (tcp) or shared memory (memory)",
              {"tcp", "memory"});
  line.option("--raw-sockets", options.plainSockets, "with --bench: plain sockets per direction (default 1)",
              ValueRange{1, 64});
  line.option("--bench-bytes", byteTexts.benchBytes, "with --bench: size of a message (default 4M)");
  line.option("--bench-seconds", options.benchSeconds, "with --bench: seconds per measurement (default 1)",
              ValueRange{0.01, 600.0});
  line.option("--sender-netns", options.senderNetns, "with --bench: network namespace of the sender (/run/netns/NAME)");
  line.option("--json", options.json, "write the results to this file");
  line.flag("-v,--verbose", options.verbose, "print the plugin's log to standard error");
}

std::vector<const Rule*> allRules() {
  std::vector<const Rule*> all;
  for (std::span<const Rule> rules : {setupRules(), messageRules(), gpuRules(), failureRules(), measurements()})
    for (const Rule& rule : rules) all.push_back(&rule);
  return all;
}

std::vector<std::string> ruleNames() {
  std::vector<std::string> names;
  for (const Rule* rule : allRules()) names.emplace_back(rule->name);
  return names;
}

// Checks the options. Returns an exit status if the program must end at once.
std::optional<int> check(const CommandLine& line, CheckOptions& options, const ByteTexts& byteTexts) {
  if (options.list) {
    for (const Rule* rule : allRules()) fmt::print("{:<24}{}\n", rule->name, rule->about);
    return 0;
  }
  if (options.plugin.empty()) return line.printUsageError("no PLUGIN to check");
  Result<uint64_t> bytes = parseBytes(byteTexts.maxBytes);
  if (!bytes.ok())
    return line.printUsageError(fmt::format("--max-bytes {}: {}", byteTexts.maxBytes, bytes.error().message()));
  options.maxBytes = std::move(bytes).value();
  constexpr size_t kLeast = size_t{1} << 20, kLeastBench = 1024, kMost = (size_t{1} << 31) - 1;
  if (options.maxBytes < kLeast || options.maxBytes > kMost)
    return line.printUsageError(fmt::format("--max-bytes {}: expected 1M to less than 2G", byteTexts.maxBytes));
  Result<uint64_t> benchBytes = parseBytes(byteTexts.benchBytes);
  options.benchBytes = benchBytes.ok() ? std::move(benchBytes).value() : 0;
  if (options.benchBytes < kLeastBench || options.benchBytes > kMost)
    return line.printUsageError(fmt::format("--bench-bytes {}: expected 1K to less than 2G", byteTexts.benchBytes));
  const std::vector<std::string> names = options.bench > 0 ? comparisonNames(options.against) : ruleNames();
  for (const std::string& name : options.only)
    if (std::find(names.begin(), names.end(), name) == names.end())
      return line.printUsageError(fmt::format("--only {}: unknown rule (see --list)", name));
  return {};
}

class Checker {
 public:
  Checker(const CommandLine& line, const CheckOptions& options) : line_(line), options_(options) {}

  int run() {
    const Rule& init = setupRules()[0];
    const Rule& properties = setupRules()[1];
    RuleResult started = supervise(options_, init, -1);
    const bool usable = started.verdict == Verdict::kPass;
    const std::string plugin = usable ? started.detail : options_.plugin;
    if (!usable || wanted(init)) report_.add(std::move(started));
    if (usable) {
      RuleResult seen = supervise(options_, properties, -1);
      const auto devices = seen.measures.find("devices");
      const int count = devices != seen.measures.end() ? static_cast<int>(devices->second) : 1;
      if (options_.device >= count)
        return line_.printUsageError(
            fmt::format("--device {}: the plugin has {} devices, numbered from 0", options_.device, count));
      if (seen.verdict != Verdict::kPass || wanted(properties)) report_.add(std::move(seen));
      checkRest(count);
    }
    report_.end();
    if (options_.json.empty()) return report_.failed() > 0 ? 1 : 0;
    const Status written = report_.write(options_.json, plugin);
    if (!written.ok()) return line_.printUsageError(written.message());
    return report_.failed() > 0 ? 1 : 0;
  }

 private:
  bool wanted(const Rule& rule) const {
    return options_.only.empty() ||
           std::find(options_.only.begin(), options_.only.end(), rule.name) != options_.only.end();
  }

  void checkRest(int devices) {
    std::vector<const Rule*> isPerDevice;
    for (const Rule* rule : allRules()) {
      if (!wanted(*rule) || rule == &setupRules()[0] || rule == &setupRules()[1]) continue;
      if (rule->isPerDevice) isPerDevice.push_back(rule);
      else report_.add(supervise(options_, *rule, -1));
    }
    const int first = std::max(options_.device, 0), end = options_.device >= 0 ? options_.device + 1 : devices;
    for (int device = first; device < end && !isPerDevice.empty(); ++device) {
      report_.device(device, options_.threads);
      for (const Rule* rule : isPerDevice) report_.add(supervise(options_, *rule, device));
    }
  }

  const CommandLine& line_;
  const CheckOptions& options_;
  Report report_;
};

int main(int argc, char** argv) {
  CheckOptions options;
  ByteTexts byteTexts;
  CommandLine line(
      "net-plugin-check",
      "Checks an NCCL net plugin against the rules that NCCL relies on, then measures its speed. Each end of a\n"
      "connection runs in its own process. Exit status 0: no rule failed.");
  declare(line, options, byteTexts);
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  if (const std::optional<int> status = check(line, options, byteTexts)) return *status;
  setVerbose(options.verbose);
  return options.bench > 0 ? runBench(options) : Checker(line, options).run();
}

}  // namespace
}  // namespace bps::check

int main(int argc, char** argv) { return bps::check::main(argc, argv); }
