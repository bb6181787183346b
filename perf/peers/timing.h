// What every driver of perf/compare_peers does in the same way: times all-reduces of given sizes, each waited for
// before the next, and prints a line of JSON for each size. A driver only says how its library makes one call.
#pragma once
#include <cstddef>
#include <vector>

namespace bps::perf {

// One rank of a library that is compared. What fails in it ends the process with a message.
class Peer {
 public:
  Peer() = default;
  virtual ~Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // The calls that follow sum `count` elements of `send` over the ranks into `recv`. Both hold the same before the
  // first call, so that an algorithm that knows only one buffer may take `recv`.
  virtual void prepare(const float* send, float* recv, size_t count) = 0;
  virtual void allReduce() = 0;           // and waits for the result
  virtual double most(double value) = 0;  // of all ranks
};

struct Request {
  std::vector<size_t> sizes;  // bytes
  double seconds = 0;         // to be spent on each size
};

// Reads "8,1024" and "0.05". False, with a message, when they are something else.
bool parseRequest(const char* sizes, const char* seconds, Request& request);

// The exit status: 0, or 1 when a sum is wrong.
int timeAll(Peer& peer, const Request& request);

}  // namespace bps::perf
