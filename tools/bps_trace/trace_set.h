// TraceSet: the trace files of one communicator, with all times on one clock.
//
// The clock is rank 0's, counted from the first event. A file of another process says by how much rank 0's clock was
// ahead at some points of time. Each time is corrected by the point with the least uncertainty, where a point counts as
// less certain the further away it is, because clocks drift.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"
#include "src/trace/file.h"

namespace bps::trace {

struct TracedProcess {
  std::string path;
  trace::File file;          // its times are nanoseconds since the first event of all files, from 1
  uint64_t uncertainty = 0;  // the largest error of the clock within the trace, in nanoseconds
  bool clockKnown = true;    // false: the offset of the clock is not measured

  bool server() const { return file.header.server; }
  std::string name() const;  // "rank 3", "server cpu1:7700"
};

struct TraceSet {
  std::vector<TracedProcess> processes;  // ranks first, in their order
  uint64_t end = 0;                      // time of the last event

  const trace::Header& header() const { return processes.front().file.header; }
  size_t machines() const { return header().machines; }
  size_t servers() const { return header().names.size() - header().machines; }
  bool isServer(size_t endpoint) const { return endpoint >= machines(); }
  // "rank 3", "ranks 8-15" or "server cpu1:7700".
  std::string endpointName(size_t endpoint) const;
  uint64_t lost() const;
};

// Aligns the clocks. Fails if the files are not of one communicator. The error names the file.
Result<TraceSet> makeTraceSet(std::vector<TracedProcess> processes);
// Reads the files. The error names the file and says what is wrong with it.
Result<TraceSet> readTraceSet(const std::vector<std::string>& paths);

}  // namespace bps::trace
