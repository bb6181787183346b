// ClockOffset: estimates by how much the steady clock of another process is ahead of this process's.
//
// A sample is one round trip: this process sends at `sentAt`, the peer reads its clock as `peerAt`, and the answer is here
// at `receivedAt`. The peer read its clock at some time within the round trip, so the estimate is wrong by at most half
// of the round trip. Of all samples the one with the shortest round trip counts. Because clocks drift, a sample ages: its
// round trip counts as longer by a ten-thousandth of its age. Any thread may use a ClockOffset.
#pragma once
#include <cstdint>

#include "src/base/mutex.h"

namespace bps {

class ClockOffset {
 public:
  struct Sample {
    uint64_t sentAt = 0, peerAt = 0, receivedAt = 0;  // nanoseconds
  };
  struct Estimate {
    int64_t nanoseconds = 0;   // what to add to this process's clock to get the peer's
    uint64_t roundTrip = 0;    // of the sample that counts, in nanoseconds
    uint64_t samples = 0;      // 0: nothing was measured
  };

  void add(const Sample& sample) {
    if (sample.receivedAt < sample.sentAt) return;
    const uint64_t roundTrip = sample.receivedAt - sample.sentAt;
    MutexLock lock(mutex_);
    const uint64_t age = sample.receivedAt - measuredAt_;
    ++estimate_.samples;
    if (estimate_.samples > 1 && roundTrip > estimate_.roundTrip + age / kDriftParts) return;
    measuredAt_ = sample.receivedAt;
    estimate_.roundTrip = roundTrip;
    estimate_.nanoseconds = static_cast<int64_t>(sample.peerAt - sample.sentAt - roundTrip / 2);
  }
  Estimate estimate() const {
    MutexLock lock(mutex_);
    return estimate_;
  }

 private:
  static constexpr uint64_t kDriftParts = 10000;
  mutable Mutex mutex_;
  Estimate estimate_ BPS_GUARDED_BY(mutex_);
  uint64_t measuredAt_ BPS_GUARDED_BY(mutex_) = 0;
};

}  // namespace bps
