#include "src/comm/startup/probe_times.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {

Blob encodeSeconds(double seconds) { return WireWriter().put(seconds).bytes(); }

Result<double> slowestSeconds(const std::vector<Blob>& times, const Roster& roster) {
  constexpr double kMaxSeconds = 86400;  // the longest BPS_TIMEOUT
  double slowest = 0;
  for (size_t rank = 0; rank < times.size(); ++rank) {
    WireReader reader(times[rank]);
    const double seconds = reader.getDouble();
    if (!reader.finish("").ok() || !(seconds >= 0 && seconds <= kMaxSeconds))
      return failure(Code::kRemote, "{}: the time of its probe is not valid", roster.rankName(rank));
    slowest = std::max(slowest, seconds);
  }
  return slowest;
}

}  // namespace bps
