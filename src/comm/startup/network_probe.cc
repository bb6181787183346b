#include "src/comm/startup/network_probe.h"

#include <algorithm>
#include <cstring>

#include "src/base/memory.h"

namespace bps {

Result<Tuning> NetworkProbe::tune() {
  tuning_ = {plan_.limits, plan_.depth};
  const double traffic = busiestTraffic(plan_);
  if (traffic == 0) return tuning_;
  const double known = knownRate(control_.roster());
  if (known > 0) return tuningFor(known, plan_);
  const double rate = BPS_TRY(measureRate(traffic));
  tuning_ = tuningFor(rate, plan_);
  if (const size_t bytes = chunkProbeBytes(rate, tuning_, plan_); bytes > 0) {
    const Tuning tuned = tuning_;
    const double seconds = BPS_TRY(measureSlowestRank(bytes));
    tuning_.limits.targetChunkBytes = plan_.limits.targetChunkBytes;
    tuning_ = chooseFasterChunks(tuned, seconds, BPS_TRY(measureSlowestRank(bytes)), plan_);
  }
  return tuning_;
}

Result<double> NetworkProbe::measureRate(double traffic) {
  tuning_.limits.targetChunkBytes = std::min(kProbeChunkBytes, plan_.limits.targetChunkBytes);
  const Probe first = {kSmallProbe, BPS_TRY(measureSlowestRank(kSmallProbe))};
  tuning_ = tuningFor(estimateRate({}, first, traffic), plan_);
  if (first.seconds <= kFastSeconds) return estimateRate({}, BPS_TRY(measure(kLargeProbe)), traffic);
  if (first.seconds > kSlowSeconds) return estimateRate({}, first, traffic);
  const Probe smaller = BPS_TRY(repeatIfShort(first));
  return estimateRate(smaller, BPS_TRY(measure(kMiddleProbe)), traffic);
}

Result<Probe> NetworkProbe::repeatIfShort(Probe probe) {
  for (int again = 1; again < kProbes && probe.seconds < kRepeatSeconds; ++again)
    probe.seconds = std::min(probe.seconds, BPS_TRY(measureSlowestRank(probe.bytes)));
  return probe;
}

// Returns the seconds that a call of this size takes on the slowest rank. All ranks begin at the same time.
Result<double> NetworkProbe::measureSlowestRank(size_t bytes) {
  const PageBuffer buffer = BPS_TRY(PageBuffer::create(bytes));
  std::memset(buffer.data(), 0, bytes);
  bytes_ += bytes;
  AllReduceCall call;
  call.send = call.recv = buffer.data();
  call.count = bytes;
  call.type = DataType::kUint8;
  call.stream = std::make_shared<HostStream>();
  BPS_TRY(control_.gather({}, deadline_));
  const auto start = Deadline::Clock::now();
  BPS_TRY(issue_(call, tuning_));
  BPS_TRY(call.stream->synchronize());
  const std::chrono::duration<double> own = Deadline::Clock::now() - start;
  return slowestSeconds(BPS_TRY(control_.gather(encodeSeconds(own.count()), deadline_)), control_.roster());
}

}  // namespace bps
