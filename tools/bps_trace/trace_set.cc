#include "tools/bps_trace/trace_set.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "src/base/format.h"

namespace bps::trace {
namespace {

constexpr uint64_t kDriftParts = 100000;      // a clock drifts by at most 1 part of so many
constexpr size_t kMostFileBytes = 64U << 20;  // no trace is larger
constexpr size_t kReadBytes = 1U << 20;

Result<Blob> readFile(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return systemFailure(path + ": cannot be opened", errno);
  Blob bytes;
  size_t got = 1;
  while (got > 0 && bytes.size() <= kMostFileBytes) {
    const size_t before = bytes.size();
    bytes.resize(before + kReadBytes);
    got = std::fread(bytes.data() + before, 1, kReadBytes, file.get());
    bytes.resize(before + got);
  }
  if (std::ferror(file.get()) != 0) return systemFailure(path + ": cannot be read", errno);
  if (bytes.size() > kMostFileBytes)
    return failure(Code::kInvalidArgument, "{}: is larger than {} bytes, so it is not a trace of bps", path,
                   kMostFileBytes);
  return bytes;
}

const ClockPoint& pointFor(const std::vector<ClockPoint>& clock, uint64_t time) {
  const auto error = [time](const ClockPoint& point) {
    const uint64_t distance = time > point.at ? time - point.at : point.at - time;
    return point.uncertainty + distance / kDriftParts;
  };
  return *std::min_element(clock.begin(), clock.end(),
                           [&](const ClockPoint& a, const ClockPoint& b) { return error(a) < error(b); });
}

// Converts the times of a file to rank 0's clock.
void align(TracedProcess& process) {
  const std::vector<ClockPoint>& clock = process.file.clock;
  process.clockKnown = !clock.empty() || (!process.server() && process.file.header.number == 0);
  if (clock.empty()) return;
  for (trace::Event& event : process.file.events) {
    const ClockPoint& point = pointFor(clock, event.time);
    process.uncertainty = std::max(process.uncertainty, point.uncertainty);
    event.time += static_cast<uint64_t>(point.ahead);
  }
}

Status checkSame(const TracedProcess& first, const TracedProcess& other) {
  const trace::Header &a = first.file.header, &b = other.file.header;
  if (a.job != b.job)
    return failure(Code::kInvalidArgument,
                   "{}: is of another communicator ({:016x}) than {} ({:016x}); give the files of one communicator",
                   other.path, b.job, first.path, a.job);
  if (a.machines != b.machines || a.ranks != b.ranks || a.names.size() != b.names.size())
    return failure(Code::kInvalidArgument, "{}: describes other machines than {}", other.path, first.path);
  return {};
}

}  // namespace

std::string TracedProcess::name() const {
  if (!server()) return fmt::format("rank {}", file.header.number);
  const std::string& name = file.header.names[file.header.endpoint];
  return name.substr(0, name.find(" ("));
}

std::string TraceSet::endpointName(size_t endpoint) const {
  if (endpoint >= header().names.size()) return "?";
  const std::string& name = header().names[endpoint];
  return name.substr(0, name.find(" ("));
}

uint64_t TraceSet::lost() const {
  uint64_t lost = 0;
  for (const TracedProcess& process : processes) lost += process.file.lost;
  return lost;
}

Result<TraceSet> makeTraceSet(std::vector<TracedProcess> processes) {
  if (processes.empty()) return Status(Code::kInvalidArgument, "no trace file is given");
  TraceSet set;
  set.processes = std::move(processes);
  for (const TracedProcess& process : set.processes) BPS_TRY(checkSame(set.processes.front(), process));
  const auto key = [](const TracedProcess& p) { return std::pair(p.server(), p.file.header.number); };
  std::stable_sort(set.processes.begin(), set.processes.end(),
                   [&](const TracedProcess& a, const TracedProcess& b) { return key(a) < key(b); });
  for (size_t i = 1; i < set.processes.size(); ++i)
    if (!set.processes[i].server() && key(set.processes[i - 1]) == key(set.processes[i]))
      return failure(Code::kInvalidArgument, "{}: is of rank {}, and so is {}", set.processes[i].path,
                     set.processes[i].file.header.number, set.processes[i - 1].path);
  // Servers also record the calls that measure the network when the communicator starts. Ranks do not.
  uint64_t first = UINT64_MAX;
  const bool ranks = !set.processes.front().server();
  for (TracedProcess& process : set.processes) {
    align(process);
    for (const trace::Event& event : process.file.events)
      if (ranks != process.server()) first = std::min(first, event.time);
  }
  for (TracedProcess& process : set.processes) {
    std::erase_if(process.file.events, [first](const trace::Event& event) { return event.time < first; });
    for (trace::Event& event : process.file.events) {
      event.time = event.time - first + 1;
      set.end = std::max(set.end, event.time);
    }
  }
  return set;
}

Result<TraceSet> readTraceSet(const std::vector<std::string>& paths) {
  std::vector<TracedProcess> processes;
  for (const std::string& path : paths) {
    const Blob bytes = BPS_TRY(readFile(path));
    Result<trace::File> file = trace::decodeFile(bytes);
    if (!file.ok()) return failure(file.error().code(), "{}: {}", path, file.error().message());
    processes.push_back({path, std::move(file).value(), 0, true});
  }
  return makeTraceSet(std::move(processes));
}

}  // namespace bps::trace
