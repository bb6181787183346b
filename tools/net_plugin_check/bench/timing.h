// How both sides of a measurement time the same thing: some 8-byte round trips, or a load for about so many seconds.
#pragma once
#include <functional>
#include <vector>

#include "tools/net_plugin_check/side.h"

namespace bps::check {

struct Load {
  size_t bytesEach = 0;  // of a message; of two that go both ways at a time
  double seconds = 1;
  std::function<Status(size_t count)> run;  // until so many are through on this side
};

struct Timing {
  double gbps = 0;
  double cpuSecondsPerGb = 0;  // of both sides; 1e9 bytes
};

// A first short run says how many messages fill the time. What comes back is the receiving side's to report.
Result<Timing> timed(Side& side, const Load& load);

struct RoundTripCounts {
  size_t warmUp = 200, count = 5000;
};
// In a second's time or less there are enough that the scheduler has seen that each side wants a CPU of its own.
inline RoundTripCounts roundTripCountsFor(double seconds) {
  return {.warmUp = static_cast<size_t>(10000 * seconds), .count = static_cast<size_t>(20000 * seconds)};
}

// Nanoseconds of each round trip. `turn` makes one on this side: the sending side begins.
Result<std::vector<int64_t>> roundTrips(RoundTripCounts pings, const std::function<Status()>& roundTrip);
Result<std::vector<int64_t>> pluginRoundTrips(Side& side, RoundTripCounts pings);

}  // namespace bps::check
