// The common part of the drivers of perf/compare_peers: times all-reduces of given sizes, waits for each before the
// next, and prints a line of JSON for each size. A driver only implements one call of its library.
#pragma once
#include <cstddef>
#include <vector>

namespace bps::perf {

// One rank of a compared library. A failure ends the process with a message.
class ComparedLibrary {
 public:
  ComparedLibrary() = default;
  virtual ~ComparedLibrary() = default;
  ComparedLibrary(const ComparedLibrary&) = delete;
  ComparedLibrary& operator=(const ComparedLibrary&) = delete;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Later calls sum `count` elements of `send` over the ranks into `recv`. Before the first call both have the same
  // contents, so that an in-place algorithm may use `recv` alone.
  virtual void prepare(const float* send, float* recv, size_t count) = 0;
  virtual void allReduce() = 0;                   // waits for the result
  virtual double maxOverRanks(double value) = 0;  // of all ranks
};

struct TimingRequest {
  std::vector<size_t> sizes;  // bytes
  double seconds = 0;         // time to spend on each size
};

// Parses "8,1024" and "0.05". Returns false and prints a message if they are invalid.
bool parseTimingRequest(const char* sizes, const char* seconds, TimingRequest& request);

// Returns the exit status: 0, or 1 if a sum is wrong.
int timeAll(ComparedLibrary& library, const TimingRequest& request);

}  // namespace bps::perf
