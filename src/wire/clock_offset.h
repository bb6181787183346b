// ClockOffset: estimates by how much the steady clock of another process is ahead of this process's clock.
//
// A sample is one round trip: this process sends at `sentAt`, the peer reads its clock as `peerAt`, and the answer
// arrives at `receivedAt`. The peer reads its clock within the round trip, so the estimate is wrong by at most half of
// the round trip. The best sample of each period becomes a point. The periods grow, so a ClockOffset has at most
// kMostPoints points, however long the process runs. Any thread may use a ClockOffset.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "src/base/mutex.h"

namespace bps {

struct ClockPoint {
  uint64_t at = 0;           // this process's clock, in nanoseconds
  int64_t ahead = 0;         // add this to this process's clock to get the peer's clock, in nanoseconds
  uint64_t uncertainty = 0;  // the largest error of `ahead`, in nanoseconds
};

class ClockOffset {
 public:
  static constexpr size_t kMostPoints = 64;
  struct Sample {
    uint64_t sentAt = 0, peerAt = 0, receivedAt = 0;  // nanoseconds
  };

  void add(const Sample& sample) {
    if (sample.receivedAt < sample.sentAt) return;
    const uint64_t half = (sample.receivedAt - sample.sentAt) / 2, middle = sample.sentAt + half;
    const ClockPoint point{middle, static_cast<int64_t>(sample.peerAt - middle), half};
    MutexLock lock(mutex_);
    if (points_.empty() || point.at - points_.back().at >= period_) points_.push_back(point);
    else if (half < points_.back().uncertainty) points_.back() = {points_.back().at, point.ahead, half};
    if (points_.size() > kMostPoints) thinOut();
  }
  std::vector<ClockPoint> points() const {
    MutexLock lock(mutex_);
    return points_;
  }

 private:
  static constexpr uint64_t kFirstPeriod = 1000000000;
  // Keeps the better one of each two neighbours.
  void thinOut() BPS_REQUIRES(mutex_) {
    period_ *= 2;
    size_t kept = 0;
    for (size_t i = 0; i < points_.size(); i += 2) {
      const bool second = i + 1 < points_.size() && points_[i + 1].uncertainty < points_[i].uncertainty;
      points_[kept++] = points_[second ? i + 1 : i];
    }
    points_.resize(kept);
  }

  mutable Mutex mutex_;
  std::vector<ClockPoint> points_ BPS_GUARDED_BY(mutex_);
  uint64_t period_ BPS_GUARDED_BY(mutex_) = kFirstPeriod;
};

}  // namespace bps
