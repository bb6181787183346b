// Files that bps-perf writes beside its table: rows as CSV, and a picture of the bus bandwidth.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "perf/report/report.h"

namespace bps::perf {

// The first line has the names of the columns. An unchecked row has no number of wrong elements.
std::string csvText(const std::vector<Row>& rows);

// One curve: the bus bandwidth in GB/s for each size in bytes.
struct Curve {
  std::string name;
  std::vector<std::pair<uint64_t, double>> points;
};
// Returns the curves of a run. There is one curve for each type, operation and placement.
std::vector<Curve> curvesOf(const std::string& run, const std::vector<Row>& rows);
// Reads the curves of an earlier run from a file that option -J or nccl-tests has written.
Result<std::vector<Curve>> readCurves(const std::string& path);
// Draws the curves as SVG. The horizontal axis is logarithmic. `ideal` is a limit in GB/s; 0 means that none is known.
std::string plotText(const std::string& title, const std::vector<Curve>& curves, double ideal);

// Writes a file, and replaces an older one of this name. An error names `option`.
Status writeFile(const std::string& option, const std::string& path, const std::string& text);

}  // namespace bps::perf
