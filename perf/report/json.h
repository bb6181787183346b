// Writes the results as nccl-tests' JSON, version 3. The key "bps" holds what bps adds.
#pragma once
#include <map>
#include <span>
#include <string>
#include <vector>

#include "perf/report/report.h"

namespace bps::perf {

struct JsonReport {
  std::string startTime, endTime;
  std::vector<std::string> arguments;
  std::map<std::string, std::string> environment;
  JobFacts facts;
  std::vector<Row> rows;
  uint64_t outOfBounds = 0;
  double averageBusBw = 0, leastBw = 0;
  int exitCode = 0;
  std::vector<std::string> errors;
};

std::string jsonText(const Options& options, const JsonReport& report);
// Writes a new file `name`. If that file exists, tries name.0, name.1 and so on. Returns the name
// of the written file.
Result<std::string> writeNewFile(const std::string& name, const std::string& text);
std::string timeText();

}  // namespace bps::perf
