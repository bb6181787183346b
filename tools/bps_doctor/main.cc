// bps-doctor: examines a job before it runs. Run it under the launcher of the job, with the environment of the job. Rank
// 0 prints a table, the problems with their remedies and a verdict.
//
// The exit status is 0 if all is right, 1 if there is a problem, and 2 for wrong usage or if something could not be
// checked. Ranks other than 0 end with 0 if they have taken part, because rank 0 reports for all.
#include <fmt/core.h>

#include <cstdio>

#include "src/base/format.h"
#include "src/base/guard.h"
#include "tools/bps_doctor/examination.h"
#include "tools/bps_doctor/report.h"
#include "tools/command_line/command_line.h"

namespace bps::doctor {
namespace {

constexpr int kProblem = 1, kNotChecked = 2;

struct Options {
  std::string bytes = "8M";
  double wait = 0;
  bool json = false;
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
  if (!bytes.ok()) return std::move(bytes).status().within("--bytes " + options.bytes);
  request.bytes = std::move(bytes).value();
  request.waitSeconds = options.wait > 0 ? options.wait : request.env.timeout.value;
  return request;
}

Result<int> run(const Options& options, const Request& request) {
  if (request.launch.process != 0) {
    const std::vector<Finding> findings = BPS_TRY(takePart(request));
    if (!findings.empty()) fmt::print(stderr, "{}", findingsText(findings));
    return exitStatus(findings);
  }
  const Outcome outcome = BPS_TRY(examine(request));
  fmt::print("{}", options.json ? reportJson(outcome.survey, outcome.findings)
                                : reportText(outcome.survey, outcome.findings));
  return exitStatus(outcome.findings);
}

// Prints an error that ended this rank before its report. A missing key is a problem of the job, too.
int printError(const Options& options, const Request& request, const Status& status) {
  const Finding finding = explainError(fmt::format("rank {}", request.launch.process), status.message(), "rank");
  Survey survey;
  if (options.json && request.launch.process == 0) {
    survey.ranks = request.launch.processes;
    fmt::print("{}", reportJson(survey, {finding}));
  } else {
    fmt::print(stderr, "{}", findingsText({finding}));
  }
  return finding.check == "key" ? kProblem : kNotChecked;
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("bps-doctor",
                   "Examines a job before it runs. Start it as the job, under the same launcher and with the same "
                   "environment: mpirun ... bps-doctor. Rank 0 prints a table, the problems and what to do about them. "
                   "Exit status: 0 all right, 1 a problem was found, 2 wrong usage or not everything could be checked.");
  line.option("--bytes", options.bytes, "size of the all-reduce that is measured; 0: none (default 8M)");
  line.option("--wait", options.wait, "seconds to wait for all ranks (default: BPS_TIMEOUT)", ValueRange{0.1, 3600});
  line.flag("--json", options.json, "print JSON");
  line.footer("docs/troubleshooting.md explains the messages.");
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  Result<Request> request = makeRequest(options);
  if (!request.ok()) {
    (void)line.printUsageError(request.error().message());
    return kNotChecked;
  }
  const Request made = std::move(request).value();
  int code = 0;
  const Status status = guarded([&]() -> Status {
    code = BPS_TRY(run(options, made));
    return {};
  });
  if (!status.ok()) code = printError(options, made, status);
  if (std::fflush(stdout) == 0) return code;
  (void)line.printUsageError("standard output cannot be written");
  return kNotChecked;
}

}  // namespace
}  // namespace bps::doctor

int main(int argc, char** argv) { return bps::doctor::main(argc, argv); }
