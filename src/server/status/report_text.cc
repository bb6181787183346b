#include "src/server/status/report_text.h"

#include "src/base/format.h"

namespace bps::server {
namespace {

std::string railText(uint32_t rail) { return rail == 0 ? "" : fmt::format(" on rail {}", rail); }

std::string laneText(const LaneReport& lane) {
  std::string text = fmt::format("  lane of {}{}: ", lane.peer, railText(lane.rail));
  if (lane.missing == 0) text += "has contributed";
  else text += fmt::format("waits for {} contribution{}", lane.missing, lane.missing == 1 ? "" : "s");
  if (lane.unsent > 0) text += fmt::format(", {} sum{} not sent yet", lane.unsent, lane.unsent == 1 ? "" : "s");
  return text;
}

void addJob(const JobReport& job, std::vector<std::string>& lines) {
  lines.push_back(fmt::format("job {:016x}: {}, {} ranks on {} machines, open for {:.1f} s, {} bytes summed, hub {}",
                              job.id, job.state, job.ranks, job.machines, job.ageSeconds, job.bytesSummed, job.hub));
  if (!job.calls.empty())
    lines.push_back(fmt::format("  calls in flight: {}; no progress for {:.1f} s", job.calls.size(), job.idleSeconds));
  for (const CallReport& call : job.calls)
    lines.push_back(fmt::format("  {}{}: {} bytes", call.text, railText(call.rail), call.bytes));
  for (const LaneReport& lane : job.lanes) lines.push_back(laneText(lane));
  if (job.lanesLeftOut > 0) lines.push_back(fmt::format("  {} more lanes", job.lanesLeftOut));
}

}  // namespace

std::vector<std::string> reportLines(const StatusReport& report) {
  std::vector<std::string> lines{fmt::format("jobs: {}", report.jobs.size())};
  for (const JobReport& job : report.jobs) addJob(job, lines);
  if (report.silentThreads > 0)
    lines.push_back(
        fmt::format("{} summation threads do not answer; their jobs are missing here", report.silentThreads));
  return lines;
}

}  // namespace bps::server
