// Times a measurement that runs on both sides: either a load for a given time, or a number of
// 8-byte round trips.
#pragma once
#include <functional>
#include <vector>

#include "tools/net_plugin_check/side.h"

namespace bps::check {

struct Load {
  size_t bytesEach = 0;  // bytes of a message; with two directions, bytes of two messages
  double seconds = 1;
  std::function<Status(size_t count)> run;  // returns as soon as this side has transferred `count` messages
};

struct Timing {
  double gbps = 0;
  double cpuSecondsPerGb = 0;  // CPU time of both sides for 1e9 bytes
};

// Runs the load on both sides. A short first run determines how many messages the requested time
// needs.
Result<Timing> timed(Side& side, const Load& load);

struct RoundTripCounts {
  size_t warmUp = 200, count = 5000;
};
// Returns the numbers of round trips for a duration. The warm-up is long enough for the scheduler
// to give each side a separate CPU.
inline RoundTripCounts roundTripCountsFor(double seconds) {
  return {.warmUp = static_cast<size_t>(10000 * seconds), .count = static_cast<size_t>(20000 * seconds)};
}

// Returns the duration of each round trip in nanoseconds. `roundTrip` does the work of this side
// for one round trip, in which the sending side begins.
Result<std::vector<int64_t>> roundTrips(RoundTripCounts counts, const std::function<Status()>& roundTrip);
Result<std::vector<int64_t>> pluginRoundTrips(Side& side, RoundTripCounts counts);

}  // namespace bps::check
