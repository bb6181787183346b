// ProbeTimes: how the ranks agree on the time of the calls that measure the network (tuning.h).
#pragma once
#include <vector>

#include "src/base/io/wire_io.h"
#include "src/base/status.h"
#include "src/wire/roster.h"

namespace bps {

// encodeSeconds() encodes the time that a rank brings to the gather after timed calls.
// slowestSeconds() returns the longest time. If a rank sent no valid time, the error names this
// rank.
Blob encodeSeconds(double seconds);
Result<double> slowestSeconds(const std::vector<Blob>& times, const Roster& roster);

}  // namespace bps
