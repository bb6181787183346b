// bps-doctor: examines the machines and the network of a job before the job runs. It is started as the job, under the
// same launcher and with the same environment. Rank 0 prints a table, the findings with their remedies and a verdict.
//
// The exit status of rank 0 is 0 if all is right and 1 if there is a problem. The other ranks end with 0 even if they
// found a problem, because launchers end all ranks as soon as one fails, and rank 0 could not report then. Every rank
// ends with 2 for wrong usage.
#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

#include "src/base/format.h"
#include "src/base/guard.h"
#include "tools/bps_doctor/examination.h"
#include "tools/bps_doctor/reduce.h"
#include "tools/bps_doctor/report/report.h"
#include "tools/command_line/command_line.h"

namespace bps::doctor {
namespace {

struct Options {
  std::string bytes = "64M";
  double wait = 0;
  std::string json;     // a file; empty: standard output
  bool asJson = false;  // --json was given
};

std::vector<std::string>& environmentWarnings() {
  static std::vector<std::string> warnings;
  return warnings;
}

Result<Request> makeRequest(const Options& options) {
  Request request;
  request.env = BPS_TRY(processEnv([](const std::string& text) { environmentWarnings().push_back(text); }));
  request.warnings = environmentWarnings();
  request.launch = BPS_TRY(readLaunchEnv(processLookup()));
  if (!request.launch.root.empty()) request.env.root = request.launch.root;
  Result<uint64_t> bytes = parseBytes(options.bytes);
  if (!bytes.ok()) return std::move(bytes).status().within("-b " + options.bytes);
  request.bytes = std::move(bytes).value();
  request.waitSeconds = options.wait > 0 ? options.wait : request.env.timeout.value;
  return request;
}

// Writes the report of rank 0. With --json FILE, standard output has the text and the file has the JSON.
Status write(const Options& options, const Survey& survey, const std::vector<Finding>& findings) {
  const bool hasTable = survey.facts.contains(0);
  if (!options.asJson || !options.json.empty())
    fmt::print("{}", hasTable ? reportText(survey, findings) : findingsText(findings));
  if (options.asJson && options.json.empty()) fmt::print("{}", reportJson(survey, findings));
  if (std::fflush(stdout) != 0) return {Code::kSystem, "standard output cannot be written"};
  if (options.json.empty()) return {};
  errno = 0;
  std::ofstream file(options.json, std::ios::trunc);
  file << reportJson(survey, findings) << std::flush;
  return file.good() ? Status() : systemFailure("--json " + options.json, errno);
}

// Rank 0 reports for all ranks.
Result<int> report(const Options& options, const Request& request) {
  Outcome outcome;
  const Status status = guarded([&]() -> Status {
    outcome = BPS_TRY(examine(request));
    return {};
  });
  if (!status.ok()) {
    outcome.survey.ranks = request.launch.processes;
    outcome.findings = {explainError("rank 0", status.message(), "rank")};
  }
  BPS_TRY(write(options, outcome.survey, outcome.findings));
  return exitStatus(outcome.findings);
}

void takePartQuietly(const Request& request) {
  std::vector<Finding> findings;
  const Status status = guarded([&]() -> Status {
    findings = BPS_TRY(takePart(request));
    return {};
  });
  if (!status.ok()) findings = {explainError(fmt::format("rank {}", request.launch.process), status.message(), "rank")};
  if (!findings.empty()) fmt::print(stderr, "{}", findingsText(findings));
}

int main(int argc, char** argv) {
  if (const std::optional<int> status = runReduceProcess(argc, argv)) return *status;
  Options options;
  CommandLine line("bps-doctor",
                   "Examines the machines and the network of a job before the job runs: the ways between all pairs of "
                   "machines, NICs, MTU, limits, clocks, versions, the key and the servers. Start it as the job, under "
                   "the same launcher and with the same environment. Rank 0 prints a table, the findings with their "
                   "remedies and a verdict. Exit status: 0 all right, 1 a problem was found, 2 wrong usage.");
  line.option("-b,--bytes", options.bytes, "size of the all-reduce that is measured; 0: none (default 64M)");
  line.option("-w,--wait", options.wait, "seconds to wait for all ranks (default: BPS_TIMEOUT)", ValueRange{0.5, 3600});
  line.optionalValue("--json", options.json, "print JSON; with a file name, write JSON to this file and print text");
  line.footer("docs/doctor.md describes the findings.");
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  options.asJson = line.has("--json");
  Result<Request> made = makeRequest(options);
  if (!made.ok()) return line.printUsageError(made.error().message());
  const Request request = std::move(made).value();
  if (request.launch.process != 0) {
    takePartQuietly(request);
    return 0;
  }
  Result<int> status = report(options, request);
  return status.ok() ? std::move(status).value() : line.printUsageError(status.error().message());
}

}  // namespace
}  // namespace bps::doctor

int main(int argc, char** argv) { return bps::doctor::main(argc, argv); }
