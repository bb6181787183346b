// What bps-perf prints on stdout: nccl-tests' table, and facts on lines that begin with "#".
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "perf/app/options.h"

namespace bps::perf {

// Microseconds of single iterations (-I 1).
struct IterationTimes {
  std::vector<double> micros;  // in the order measured, the slowest rank's
  double least = 0, most = 0, mean = 0, p50 = 0, p95 = 0, p99 = 0, deviation = 0;
  double variation() const { return mean > 0 ? 100 * deviation / mean : 0; }  // percent
};
IterationTimes iterationTimes(std::vector<double> micros);

// One half of a row.
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
  std::string name;  // empty: buffers in host memory
};

struct JobFacts {
  int ranks = 1;
  std::vector<RankDevice> devices;
  int headers = 0, library = 0;  // versions
  std::string description;       // bpsCommDescribe's JSON
};

// A number in `width` columns: as many of `decimals` as fit, else exponent form.
std::string floatText(double value, int width, int decimals = 2);
double busFactor(int ranks);
// The time an all-reduce of one byte takes at least, in seconds, with n machines and k servers whose NICs have
// bytesPerSecond each way.
double idealSecondsPerByte(int machines, int servers, double bytesPerSecond);

std::string versionText();
std::string headerText(const Options& options, const JobFacts& facts);
std::string columnsText(const Options& options);
std::string rowText(const Options& options, const Row& row);
// "# ideal ..." for a row, empty without --link-gbps.
std::string idealText(const Options& options, const JobFacts& facts, const Row& row);
// The way a call of so many bytes takes, in words.
std::string pathText(const JobFacts& facts, uint64_t bytes);
// What the run moved over each link of this machine, by bpsCommDescribe's JSON; empty where that tells nothing.
std::string linksText(const std::string& description);
std::string footerText(uint64_t outOfBounds, double averageBusBw, double leastBw);

void print(std::string_view text);

}  // namespace bps::perf
