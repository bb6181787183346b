// The benchmark of --bench. The benchmark measures the plugin and a plain transport (sockets or
// shared memory) alternately in one run, and reports the ratio.
#pragma once
#include "tools/net_plugin_check/supervisor.h"

namespace bps::check {

// One row of the table. The row compares a value that two rules measure.
struct Comparison {
  const char* what;
  const char* measure;
  const Rule *ours, *baseline;
};

// Returns the comparisons with a plain transport. `against` is "tcp" or "memory".
std::span<const Comparison> comparisons(const std::string& against);

// Returns the names that --only accepts.
std::vector<std::string> comparisonNames(const std::string& against);

// Runs options.bench repetitions and prints the table. Returns the exit status.
int runBench(const CheckOptions& options);

}  // namespace bps::check
