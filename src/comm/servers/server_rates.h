// ServerRates: finds servers that are slower than their share requires, and servers that have recovered. Rank 0 judges
// for all ranks, because every sum needs the slow server. Only the holder of the progress lock uses a ServerRates.
//
// The lanes of a data plane stay in step (comm/lanes/lane.h), so a slow server makes the other lanes wait. A lane is
// busy while it has a chunk in flight. Shares are right if all lanes are busy for about the same time. A server whose
// lane is busy for much longer than the others has too large a share, and its rate is reduced by this ratio. A server
// with a reduced rate whose lane is busy for a much shorter time gets a higher rate, up to its nominal one.
//
// Between the two limits nothing changes, and a new rate brings the ratio near 1, far from both limits. At most one
// rate changes in kPause, so a server whose speed varies faster than this does not make the shares swing.
#pragma once
#include <chrono>
#include <optional>
#include <vector>

#include "src/base/deadline.h"

namespace bps {

class ServerRates {
 public:
  using Duration = std::chrono::duration<double>;
  using TimePoint = Deadline::Clock::time_point;
  static constexpr double kSlow = 1.4, kFast = 0.6;  // ratios of busy times that lead to a change
  static constexpr double kMinRate = 1.0 / 64;       // of the nominal rate
  static constexpr Duration kPeriod{1}, kPause{10};  // of one measurement; between two changes

  explicit ServerRates(size_t machines) : machines_(machines) {}

  struct NewRate {
    size_t server = 0;
    double factor = 1;  // of the nominal rate
  };
  // `busy` has the busy times of the lanes since the start (Lane::busyTime()), by endpoint. `factors` are the present
  // rates of the servers as fractions of their nominal rates. Call this function often.
  std::optional<NewRate> check(std::vector<Duration> busy, const std::vector<double>& factors, TimePoint now);

 private:
  std::optional<NewRate> judge(const std::vector<double>& ratios, const std::vector<double>& factors) const;
  std::vector<double> ratiosSinceLast(std::vector<Duration> busy, Duration elapsed);

  const size_t machines_;
  std::vector<Duration> last_;    // busy times at the last check
  std::vector<double> previous_;  // the ratios of the last check
  TimePoint lastCheck_{}, lastChange_{};
};

}  // namespace bps
