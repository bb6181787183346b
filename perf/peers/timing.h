// What every driver of perf/compare_peers does in the same way: times all-reduces of given sizes, each waited for
// before the next, and prints a line of JSON for each size. A driver only says how its library makes one call.
#pragma once
#include <cstddef>
#include <vector>

namespace bps::perf {

// One rank of a library that is compared. What fails in it ends the process with a message.
class ComparedLibrary {
 public:
  ComparedLibrary() = default;
  virtual ~ComparedLibrary() = default;
  ComparedLibrary(const ComparedLibrary&) = delete;
  ComparedLibrary& operator=(const ComparedLibrary&) = delete;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // The calls that follow sum `count` elements of `send` over the ranks into `recv`. Both hold the same before the
  // first call, so that an algorithm that knows only one buffer may take `recv`.
  virtual void prepare(const float* send, float* recv, size_t count) = 0;
  virtual void allReduce() = 0;                   // and waits for the result
  virtual double maxOverRanks(double value) = 0;  // of all ranks
};

struct TimingRequest {
  std::vector<size_t> sizes;  // bytes
  double seconds = 0;         // to be spent on each size
};

// Reads "8,1024" and "0.05". False, with a message, when they are something else.
bool parseTimingRequest(const char* sizes, const char* seconds, TimingRequest& request);

// The exit status: 0, or 1 when a sum is wrong.
int timeAll(ComparedLibrary& library, const TimingRequest& request);

}  // namespace bps::perf
