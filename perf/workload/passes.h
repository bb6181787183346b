// Times a list of all-reduce calls, and computes the hash by which the results of runs are
// compared.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "perf/app/runner.h"
#include "perf/workload/workload.h"

namespace bps::perf {

struct Call {
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  bpsDataType_t type = bpsFloat32;
};

struct Timing {
  double seconds = 0;  // the slowest rank's time of one iteration, as a median over the iterations
  uint64_t bytes = 0;  // bytes that one rank sends in one iteration
  size_t calls = 0;

  double gigabytesPerSecond() const { return seconds > 0 ? static_cast<double>(bytes) / seconds / 1e9 : 0; }
};

// Queues all calls of an iteration and waits for them, `warmup` + `iterations` times. All ranks
// must call this function.
Result<Timing> measure(std::span<const Call> calls, const WorkloadOptions& options, Runner& runner);

// Prints text on standard output, on rank 0 only.
void print(const Runner& runner, const std::string& text);
// Return the head of the table of passes, and one row of this table.
std::string passHeader();
std::string passRow(const std::string& pass, const Timing& timing);

// A 64-bit hash of byte strings and their lengths. It is fast enough for gigabytes but does not
// resist attacks.
class Checksum {
 public:
  void add(std::span<const uint8_t> bytes);
  void add(const std::string& text) { add(std::span(reinterpret_cast<const uint8_t*>(text.data()), text.size())); }
  uint64_t value() const;

 private:
  void mixIn(uint64_t word);
  uint64_t state_ = 0x243f6a8885a308d3U;  // the digits of pi
};

}  // namespace bps::perf
