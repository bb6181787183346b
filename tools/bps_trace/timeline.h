// Timeline: what a picture of a trace shows. Every process has tracks, and every track has slices that do not overlap.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "tools/bps_trace/job_history.h"

namespace bps::trace {

struct Slice {
  enum class Kind { kCall, kPush, kWait, kSum, kAnswer, kCopy, kExchange };
  uint64_t from = 0, until = 0;
  Kind kind = Kind::kCall;
  std::string name;
  uint64_t call = 0, bytes = 0;
};

struct Track {
  std::string name;
  std::vector<Slice> slices;
};

// One end of an arrow. Tracks are numbered within their process.
struct ArrowEnd {
  size_t process = 0, track = 0;
  uint64_t time = 0;
};
// From the push of a chunk to its sum, and from there to its answer.
struct Arrow {
  ArrowEnd from, to;
};

struct TimelineProcess {
  std::string name;
  std::vector<Track> tracks;
  std::vector<std::pair<uint64_t, int>> inFlight;  // the number of chunks in flight from each time on
};

struct Timeline {
  std::vector<TimelineProcess> processes;
  std::vector<Arrow> arrows;
};

Timeline makeTimeline(const JobHistory& history);

// The trace format of Chrome, which Perfetto reads too.
std::string chromeJson(const Timeline& timeline);

// A picture of the time between two times, in nanoseconds.
std::string timelineSvg(const Timeline& timeline, uint64_t from, uint64_t until);

}  // namespace bps::trace
