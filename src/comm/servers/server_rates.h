// ServerRates: finds servers that are slower than their share requires, and lets them regain their share. Rank 0 judges
// for all ranks, because every sum needs the slow server. Only the holder of the progress lock uses a ServerRates.
//
// The lanes of a data plane stay in step (comm/lanes/lane.h), so a slow server makes the other lanes wait. If the lane
// to a server has chunks in flight for much longer than the other lanes have, the server is slow. Its rate is reduced
// by the factor by which the calls have become slower, or by the ratio of these times if this is more.
//
// A server with a small share delays no call, so its speed cannot be seen. After kFirstTry, its rate is raised a
// little. If the calls become slower, the rate is lowered again, and the next attempt comes after twice the time;
// otherwise larger steps follow. At most one rate changes in kPause. So a server that stays slow changes the shares
// ever more rarely.
#pragma once
#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include "src/base/deadline.h"

namespace bps {

class ServerRates {
 public:
  using Duration = std::chrono::duration<double>;
  using TimePoint = Deadline::Clock::time_point;
  static constexpr double kSlow = 1.4;    // ratio of the times with chunks in flight
  static constexpr double kWorse = 1.15;  // ratio of the times of calls
  static constexpr double kFirstStep = 1.5, kStep = 2;
  static constexpr double kMinRate = 1.0 / 64;  // of the nominal rate
  static constexpr double kPeriod = 1;          // seconds of calls in one measurement
  static constexpr double kEvidence = 2;        // seconds of calls for which a server must be slow
  static constexpr Duration kPause{10}, kFirstTry{30}, kMaxTry{1800};

  // The servers follow the machines among the endpoints.
  ServerRates(size_t machines, size_t servers) : machines_(machines), servers_(servers) {}

  // A call with many rounds has ended. `seconds` is the time since it began or the call before it ended.
  void noteCall(size_t bytes, Duration seconds) {
    calls_.bytes += static_cast<double>(bytes);
    calls_.seconds += seconds.count();
  }
  // The shares have changed.
  void noteNewShares() {
    fastest_ = std::numeric_limits<double>::infinity();
    skip_ = true;
  }
  struct NewRate {
    size_t server = 0;
    double factor = 1;  // of the nominal rate
  };
  // True if noteCall() has collected enough calls for check().
  bool due() const { return calls_.seconds >= kPeriod; }
  // `busy` has the busy times of the lanes since the start (Lane::busyTime()), by endpoint. `factors` are the present
  // rates of the servers as fractions of their nominal rates.
  std::optional<NewRate> check(std::vector<Duration> busy, const std::vector<double>& factors, TimePoint now);

 private:
  struct Calls {
    double bytes = 0, seconds = 0;
  };
  struct Server {
    double slowSeconds = 0;  // of calls, without interruption
    Duration wait = kFirstTry;
    TimePoint nextTry{};
    double step = kFirstStep;
  };
  struct Raised {
    size_t server = 0;
    double from = 1;            // the rate before
    double secondsPerByte = 0;  // of the calls before
  };

  std::vector<double> ratiosSinceLast(std::vector<Duration> busy);
  std::optional<NewRate> judge(double secondsPerByte, const std::vector<double>& ratios,
                               const std::vector<double>& factors, TimePoint now);
  std::optional<NewRate> judgeRaised(double secondsPerByte, TimePoint now);
  std::optional<NewRate> raise(double secondsPerByte, const std::vector<double>& factors, TimePoint now);

  const size_t machines_;
  std::vector<Server> servers_;
  Calls calls_;                                               // since the last measurement
  std::vector<Duration> last_;                                // busy times at the last measurement
  double fastest_ = std::numeric_limits<double>::infinity();  // seconds per byte, with the present shares
  bool skip_ = false;  // the next measurement may include calls with the old shares
  std::optional<Raised> raised_;
  TimePoint nextChange_{};
};

}  // namespace bps
