// The common part of the programs that perf/compare_peers starts. It times all-reduces of given
// sizes, waits for each call before the next, and prints a line of JSON for each size. Each program
// only implements the call of its library.
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
  // Later calls of allReduce() sum `count` elements of `send` over the ranks into `recv`. Before
  // the first call, `send` and `recv` have the same contents, so that an in-place algorithm may use
  // `recv` alone.
  virtual void prepare(const float* send, float* recv, size_t count) = 0;
  virtual void allReduce() = 0;                   // returns when the result is complete
  virtual double maxOverRanks(double value) = 0;  // of all ranks
};

struct TimingRequest {
  std::vector<size_t> sizes;  // bytes
  double seconds = 0;         // time to spend on each size
};

// Parses lists such as "8,1024" and numbers such as "0.05". Returns false and prints a message if a
// text is invalid.
bool parseTimingRequest(const char* sizes, const char* seconds, TimingRequest& request);

// Times all sizes. Returns the exit status, which is 0, or 1 if a sum is wrong.
int timeAll(ComparedLibrary& library, const TimingRequest& request);

}  // namespace bps::perf
