#include "src/comm/servers/server_rates.h"

#include <algorithm>
#include <utility>

namespace bps {
namespace {

constexpr double kMargin =
    0.95;  // of the rate that the times suggest: too large a share costs more than too small a one
constexpr double kNominal = 0.8;  // a rate above this becomes the nominal rate

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<ServerRates::NewRate> ServerRates::check(std::vector<Duration> busy, const std::vector<double>& factors,
                                                       TimePoint now) {
  const Calls calls = std::exchange(calls_, {});
  const std::vector<double> ratios = ratiosSinceLast(std::move(busy));
  if (std::exchange(skip_, false)) return {};
  const double secondsPerByte = calls.seconds / calls.bytes;
  fastest_ = std::min(fastest_, secondsPerByte);
  for (size_t server = 0; server < servers_.size(); ++server) {
    double& slow = servers_[server].slowSeconds;
    slow = ratios[server] > kSlow ? slow + calls.seconds : 0;
  }
  if (now < nextChange_) return {};
  const std::optional<NewRate> found = judge(secondsPerByte, ratios, factors, now);
  if (!found) return {};
  nextChange_ = now + std::chrono::duration_cast<Deadline::Clock::duration>(kPause);
  for (Server& server : servers_) server.slowSeconds = 0;
  return found;
}

// Returns, for every server, the busy time of its lane divided by the median of the other lanes' busy times. The ratio
// is 1 if it is unknown. Lanes without a share do not count.
std::vector<double> ServerRates::ratiosSinceLast(std::vector<Duration> busy) {
  last_.resize(busy.size());
  std::vector<double> times;
  for (size_t endpoint = 0; endpoint < busy.size(); ++endpoint)
    times.push_back((busy[endpoint] - last_[endpoint]).count());
  last_ = std::move(busy);
  std::vector<double> ratios;
  for (size_t endpoint = machines_; endpoint < times.size(); ++endpoint) {
    std::vector<double> others;
    for (size_t other = 0; other < times.size(); ++other)
      if (other != endpoint && times[other] > 0) others.push_back(times[other]);
    const bool known = times[endpoint] > 0 && !others.empty();
    ratios.push_back(known ? times[endpoint] / median(std::move(others)) : 1);
  }
  return ratios;
}

std::optional<ServerRates::NewRate> ServerRates::judge(double secondsPerByte, const std::vector<double>& ratios,
                                                       const std::vector<double>& factors, TimePoint now) {
  if (const std::optional<NewRate> lowered = judgeRaised(secondsPerByte, now)) return lowered;
  for (size_t server = 0; server < servers_.size(); ++server) {
    if (servers_[server].slowSeconds < kEvidence || factors[server] <= kMinRate) continue;
    servers_[server].nextTry = now + std::chrono::duration_cast<Deadline::Clock::duration>(servers_[server].wait);
    const double slower = std::max(ratios[server], secondsPerByte / fastest_);
    return NewRate{server, std::max(kMinRate, kMargin * factors[server] / slower)};
  }
  return raise(secondsPerByte, factors, now);
}

// Lowers the rate that was raised last if the calls have become slower.
std::optional<ServerRates::NewRate> ServerRates::judgeRaised(double secondsPerByte, TimePoint now) {
  if (!raised_) return {};
  const Raised raised = *std::exchange(raised_, std::nullopt);
  Server& server = servers_[raised.server];
  if (secondsPerByte <= kWorse * raised.secondsPerByte) {
    server.step = kStep;
    server.wait = kFirstTry;
    return {};
  }
  server.step = kFirstStep;
  server.wait = std::min(2 * server.wait, kMaxTry);
  server.nextTry = now + std::chrono::duration_cast<Deadline::Clock::duration>(server.wait);
  return NewRate{raised.server, raised.from};
}

std::optional<ServerRates::NewRate> ServerRates::raise(double secondsPerByte, const std::vector<double>& factors,
                                                       TimePoint now) {
  for (size_t server = 0; server < servers_.size(); ++server) {
    if (factors[server] >= 1 || now < servers_[server].nextTry) continue;
    raised_ = Raised{server, factors[server], secondsPerByte};
    const double factor = servers_[server].step * factors[server];
    return NewRate{server, factor < kNominal ? factor : 1};
  }
  return {};
}

}  // namespace bps
