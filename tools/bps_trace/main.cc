// bps-trace: merges the files of BPS_TRACE into one timeline, draws a part of it, or reports where the time went.
#include <fmt/core.h>

#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "src/base/format.h"
#include "src/base/guard.h"
#include "tools/bps_trace/report.h"
#include "tools/bps_trace/timeline.h"
#include "tools/command_line/command_line.h"

namespace bps::trace {
namespace {

struct Options {
  std::vector<std::string> files;
  std::string out;
  std::optional<size_t> call;
  size_t calls = 1;
};

Status writeFile(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return systemFailure(path + ": cannot be opened for writing", errno);
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = std::fclose(file) == 0;
  return written && closed ? Status() : systemFailure(path + ": cannot be written", errno);
}

Status runReport(const Options& options) {
  const TraceSet set = BPS_TRY(readTraceSet(options.files));
  fmt::print("{}", reportText(JobHistory(set)));
  return std::fflush(stdout) == 0 ? Status() : Status(Code::kSystem, "standard output cannot be written");
}

Status runMerge(const Options& options) {
  const TraceSet set = BPS_TRY(readTraceSet(options.files));
  return writeFile(options.out, chromeJson(makeTimeline(JobHistory(set))));
}

// Draws the requested calls, or those in the middle of the trace.
Status runDraw(const Options& options) {
  const TraceSet set = BPS_TRY(readTraceSet(options.files));
  const JobHistory history(set);
  const auto& calls = history.calls();
  if (calls.empty()) return {Code::kInvalidArgument, "the trace has no calls"};
  const auto first = options.call ? calls.find(*options.call)
                                  : std::next(calls.begin(), static_cast<std::ptrdiff_t>(calls.size() / 2));
  if (first == calls.end())
    return failure(Code::kInvalidArgument, "--call {}: the trace has the calls from {} to {}", *options.call,
                   calls.begin()->first, calls.rbegin()->first);
  uint64_t until = 0;
  auto call = first;
  for (size_t i = 0; i < options.calls && call != calls.end(); ++i, ++call)
    until = std::max(until, call->second.lastFinished());
  return writeFile(options.out, timelineSvg(makeTimeline(history), first->second.firstSubmitted(), until));
}

void declareFiles(CommandLine& line, Options& options) {
  line.option("files", options.files, "the files that BPS_TRACE has written: those of all ranks and servers");
  line.require("files");
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("bps-trace",
                   "Shows what a job did, from the files that its ranks and servers have written with BPS_TRACE.");
  CommandLine& report = line.command("report", "say where the time went, and what would help");
  declareFiles(report, options);
  CommandLine& merge = line.command("merge", "write one timeline for Perfetto (ui.perfetto.dev) or chrome://tracing");
  declareFiles(merge, options);
  merge.option("-o,--out", options.out, "the file to write (JSON)");
  merge.require("--out");
  CommandLine& draw = line.command("draw", "draw the timeline of a few calls");
  declareFiles(draw, options);
  draw.option("-o,--out", options.out, "the file to write (SVG)");
  draw.require("--out");
  draw.option("--call", options.call, "number of the first call (default: one in the middle of the trace)");
  draw.option("--calls", options.calls, "number of calls (default 1)", ValueRange{1, 1000});
  if (const std::optional<int> status = line.parse(argc, argv)) return *status;
  Status status;
  if (report.given()) status = guarded([&] { return runReport(options); });
  else if (merge.given()) status = guarded([&] { return runMerge(options); });
  else if (draw.given()) status = guarded([&] { return runDraw(options); });
  else return line.printUsageError("nothing to do: give report, merge or draw");
  return status.ok() ? 0 : line.printUsageError(status.message());
}

}  // namespace
}  // namespace bps::trace

int main(int argc, char** argv) { return bps::trace::main(argc, argv); }
