#include "src/comm/startup/network_probe.h"

#include <algorithm>
#include <cstring>

#include "src/base/memory.h"

namespace bps {

Result<Tuning> NetworkProbe::tune() {
  return chooseTuning(plan_, control_.roster(),
                      [this](size_t bytes, const Tuning& tuning) { return measureSlowestRank(bytes, tuning); });
}

// Returns the seconds that a call of this size takes on the slowest rank. All ranks begin at the same time.
Result<double> NetworkProbe::measureSlowestRank(size_t bytes, const Tuning& tuning) {
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
  BPS_TRY(issue_(call, tuning));
  BPS_TRY(call.stream->synchronize());
  const std::chrono::duration<double> own = Deadline::Clock::now() - start;
  return slowestSeconds(BPS_TRY(control_.gather(encodeSeconds(own.count()), deadline_)), control_.roster());
}

}  // namespace bps
