// The standard output of bps-perf: the table of nccl-tests, and facts on lines that begin with "#".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "perf/app/options.h"

namespace bps::perf {

// Times of single iterations in microseconds, which option -I 1 asks for.
struct IterationTimes {
  std::vector<double> micros;  // the slowest rank's times, in the order measured
  double least = 0, most = 0, mean = 0, p50 = 0, p95 = 0, p99 = 0, deviation = 0;
  double variation() const { return mean > 0 ? 100 * deviation / mean : 0; }  // percent
};
IterationTimes iterationTimes(std::vector<double> micros);

// The out-of-place half or the in-place half of a row.
struct Measurement {
  double micros = 0, algbw = 0, busbw = 0;
  bool checked = false;
  uint64_t wrong = 0;
  IterationTimes iterations;
};

struct Row {
  uint64_t bytes = 0, count = 0;
  std::string type, op;
  Measurement outOfPlace, inPlace;
};

struct RankDevice {
  int rank = 0;
  int group = 0;
  int pid = 0;
  std::string host;
  int number = 0;    // of the device
  std::string name;  // empty if the buffers are in host memory
};

struct JobFacts {
  int ranks = 1;
  std::vector<RankDevice> devices;
  int headers = 0, library = 0;  // versions
  std::string description;       // bpsCommDescribe's JSON
};

// Formats a number in `width` columns with as many of `decimals` digits as fit. If no digit fits,
// uses exponent form.
std::string floatText(double value, int width, int decimals = 2);
double busFactor(int ranks);
// Returns the least seconds that an all-reduce of one byte takes with n machines and k servers.
// Each NIC carries bytesPerSecond in each direction.
double idealSecondsPerByte(int machines, int servers, double bytesPerSecond);

std::string versionText();
std::string headerText(const Options& options, const JobFacts& facts);
std::string columnsText(const Options& options);
std::string rowText(const Options& options, const Row& row);
// The bound of algbw in GB/s. 0 without --link-gbps.
double idealAlgBw(const Options& options, const JobFacts& facts);
// Returns the line "# ... ideal ..." for a row. Empty without --link-gbps.
std::string idealText(const Options& options, const JobFacts& facts, const Row& row);
// Describes the path that a call of `bytes` takes.
std::string pathText(const JobFacts& facts, uint64_t bytes);
// Returns the bytes that the run moved over each link of this machine, from bpsCommDescribe's JSON.
// Empty if no rank is on a GPU and the machine has only one NUMA node.
std::string linksText(const std::string& description);
std::string footerText(uint64_t outOfBounds, double averageBusBw, double leastBw);

void print(std::string_view text);

}  // namespace bps::perf
