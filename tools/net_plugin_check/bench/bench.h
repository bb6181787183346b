// Bench: the plugin against plain sockets or plain shared memory, in turns and in one run; what counts is the ratio.
#pragma once
#include "tools/net_plugin_check/supervisor.h"

namespace bps::check {

// One line of the table: a number that two rules measure.
struct Comparison {
  const char* what;
  const char* measure;
  const Rule *ours, *baseline;
};

// `against`: "tcp" or "memory".
std::span<const Comparison> comparisons(const std::string& against);

// What --only may name.
std::vector<std::string> comparisonNames(const std::string& against);

// options.bench times each. Prints the table; the exit status.
int runBench(const CheckOptions& options);

}  // namespace bps::check
