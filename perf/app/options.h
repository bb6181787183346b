// The command line of bps-perf. One table of options drives both the parser and the usage text.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "perf/workload/workload.h"
#include "src/base/status.h"

namespace bps::perf {

struct Options {
  int threads = 1, gpus = 1;  // this process has threads * gpus ranks
  uint64_t minBytes = 32U << 20, maxBytes = 32U << 20, stepBytes = 1U << 20;
  int stepFactor = 1;  // 1: sizes grow by stepBytes
  int iterations = 20, warmup = 1, aggregated = 1, cycles = 1;
  int parallelInit = 0;
  int checks = 1;
  std::string op = "sum", type = "float";
  std::string root = "0";
  int blocking = 0;
  int nullStream = 0, timeout = 0, graph = 0, cpuTime = 0, average = 1, registerBuffers = 0;
  std::string ctaPolicy;
  int device = 0, deviceCtas = 16;
  std::string jsonFile, csvFile, plotFile;
  std::string plotWith;  // comma-separated JSON files of earlier runs
  int timestamps = 0, memory = 0, unalign = 0, perIteration = 0, skipIterations = 0;
  double linkGbps = 0;  // 0: not given
  std::string model, tensors, out, compare;
  bool backwardOrder = false;
  bool async = false;
  std::string pauses;
  uint64_t bucketBytes = 0;
  bool help = false;
  bool version = false;
  std::vector<std::string> notes;  // lines for the report, such as options without effect
};

// Parses the command line without the program's name. A failure names, in one line, the option, the
// value and what was expected.
Result<Options> parseOptions(std::span<const char* const> arguments);
std::string usage();

struct NamedType {
  const char* name;
  bpsDataType_t type;
};
struct NamedOp {
  const char* name;
  bpsRedOp_t op;  // bpsNumOps for mulsum, because each communicator creates its own operation
};
std::vector<NamedType> chosenTypes(const std::string& name);  // all types for "all"; none if the name is unknown
std::vector<NamedOp> chosenOps(const std::string& name);

// Returns the size of the row after a row of `size` bytes, or nothing after the last row. The first
// row has the size minBytes.
std::optional<uint64_t> nextSize(const Options& options, uint64_t size);
// Returns the seconds that --pause lists.
Result<std::vector<double>> parsePauses(const std::string& list);

}  // namespace bps::perf
