// ServerRates: finds servers that are slower than their share requires, and lets them regain their share. Rank 0 judges
// for all ranks, because every sum needs the slow server. Only the holder of the progress lock uses a ServerRates.
//
// The lanes of a data plane stay in step (comm/lanes/lane.h), so a slow server makes the other lanes wait. If the lane
// to a server has chunks in flight for much longer than the other lanes have, the server is slow. Its rate is reduced
// by the factor by which the lanes have become slower, or by the ratio of these times if this is more.
//
// A server with a small share delays no call, so its speed cannot be seen. After kFirstTry, its rate is raised a
// little. If the lanes become slower, the rate is lowered again, and the next attempt comes after twice the time;
// otherwise larger steps follow. At most one rate changes in kPause. So a server that stays slow changes the shares
// ever more rarely.
#pragma once
#include <chrono>
#include <limits>
#include <optional>
#include <vector>

#include "src/base/deadline.h"
#include "src/comm/lanes/lane.h"

namespace bps {

class ServerRates {
 public:
  using Duration = std::chrono::duration<double>;
  using TimePoint = Deadline::Clock::time_point;
  static constexpr double kSlow = 1.4;    // ratio of the times with chunks in flight
  static constexpr double kWorse = 1.15;  // ratio of the seconds per byte
  static constexpr double kFirstStep = 1.5, kStep = 2;
  static constexpr double kMinRate = 1.0 / 64;  // of the nominal rate
  static constexpr int kEvidence = 2;           // number of measurements in which a server must be slow
  static constexpr Duration kPeriod{1};         // of work in one measurement
  static constexpr Duration kPause{10}, kFirstTry{30}, kMaxTry{1800};

  // The servers follow the machines among the endpoints.
  ServerRates(size_t machines, size_t servers) : machines_(machines), servers_(servers) {}

  struct NewRate {
    size_t server = 0;
    double factor = 1;  // of the nominal rate
  };
  // `lanes` has the work of the lanes since the start, by endpoint. `factors` are the present rates of the servers as
  // fractions of their nominal rates. If check() returns a new rate, it expects noteNewShares() later.
  std::optional<NewRate> check(std::vector<Lane::Work> lanes, const std::vector<double>& factors, TimePoint now);
  // A call with other shares begins.
  void noteNewShares();

 private:
  struct Measurement {
    double secondsPerByte = 0;   // of the lanes together
    std::vector<double> ratios;  // for every server, the busy time of its lane by the median of the other lanes'
  };
  struct Server {
    int slow = 0;  // number of the last measurements in which the server was slow
    Duration wait = kFirstTry;
    TimePoint nextTry{};
    double step = kFirstStep;
  };
  struct Raised {
    size_t server = 0;
    double from = 1;            // the rate before
    double secondsPerByte = 0;  // of the lanes before
  };

  std::optional<Measurement> measure(std::vector<Lane::Work> lanes);
  std::optional<NewRate> judge(const Measurement& measured, const std::vector<double>& factors, TimePoint now);
  std::optional<NewRate> judgeRaised(double secondsPerByte, TimePoint now);
  std::optional<NewRate> raise(double secondsPerByte, const std::vector<double>& factors, TimePoint now);

  const size_t machines_;
  std::vector<Server> servers_;
  std::vector<Lane::Work> last_;                              // at the last measurement
  double fastest_ = std::numeric_limits<double>::infinity();  // seconds per byte, with the present shares
  bool skip_ = false;                                         // the next measurement includes calls with the old shares
  bool pending_ = false;                                      // a new rate has no effect yet
  std::optional<Raised> raised_;
  TimePoint nextChange_{};
};

}  // namespace bps
