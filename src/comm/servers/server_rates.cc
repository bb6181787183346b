#include "src/comm/servers/server_rates.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace bps {
namespace {

constexpr double kMargin =
    0.95;  // of the rate that the times suggest: too large a share costs more than too small a one
constexpr double kComparable = 0.4;  // of a lane's bytes
constexpr double kNominal = 0.8;     // a rate above this becomes the nominal rate

constexpr ServerRates::Duration kPatience{60};  // after which a new rate without effect is given up

Deadline::Clock::duration steadyTime(ServerRates::Duration time) {
  return std::chrono::duration_cast<Deadline::Clock::duration>(time);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void ServerRates::noteNewShares() {
  fastest_ = std::numeric_limits<double>::infinity();
  if (!pending_) raised_.reset();  // a server has come or gone, so the speeds before and after are not comparable
  for (Server& server : servers_) server.slow = 0;
  skip_ = true;
  pending_ = false;
}

std::optional<ServerRates::NewRate> ServerRates::check(std::vector<Lane::Work> lanes,
                                                       const std::vector<double>& factors, TimePoint now) {
  const std::optional<Measurement> measured = measure(std::move(lanes));
  if (!measured || std::exchange(skip_, false)) return {};
  fastest_ = std::min(fastest_, measured->secondsPerByte);
  for (size_t server = 0; server < servers_.size(); ++server) {
    int& slow = servers_[server].slow;
    slow = measured->ratios[server] > kSlow ? slow + 1 : 0;
    if (factors[server] >= 1 && !raised_) servers_[server].wait = kFirstTry;
  }
  if (now < nextChange_ || (pending_ && now < nextChange_ + steadyTime(kPatience))) return {};
  const std::optional<NewRate> found = judge(*measured, factors, now);
  if (!found) return {};
  nextChange_ = now + steadyTime(kPause);
  pending_ = true;
  return found;
}

// Returns nothing until the lanes have worked for kPeriod. A ratio is 1 if it is unknown. Only lanes with a comparable
// share count, because small chunks are in flight for a short time.
std::optional<ServerRates::Measurement> ServerRates::measure(std::vector<Lane::Work> lanes) {
  last_.resize(lanes.size());
  std::vector<double> times, bytes;
  for (size_t endpoint = 0; endpoint < lanes.size(); ++endpoint) {
    if (lanes[endpoint].bytes < last_[endpoint].bytes) last_[endpoint] = {};  // a new lane
    times.push_back((lanes[endpoint].busy - last_[endpoint].busy).count());
    bytes.push_back(static_cast<double>(lanes[endpoint].bytes - last_[endpoint].bytes));
  }
  const double longest = *std::max_element(times.begin(), times.end());
  const double total = std::accumulate(bytes.begin(), bytes.end(), 0.0);
  if (longest < kPeriod.count() || total == 0) return {};
  last_ = std::move(lanes);
  Measurement measured{longest / total, {}};
  for (size_t endpoint = machines_; endpoint < times.size(); ++endpoint) {
    std::vector<double> others;
    for (size_t other = 0; other < times.size(); ++other)
      if (other != endpoint && times[other] > 0 && bytes[other] >= kComparable * bytes[endpoint])
        others.push_back(times[other]);
    const bool known = times[endpoint] > 0 && !others.empty();
    measured.ratios.push_back(known ? times[endpoint] / median(std::move(others)) : 1);
  }
  return measured;
}

std::optional<ServerRates::NewRate> ServerRates::judge(const Measurement& measured, const std::vector<double>& factors,
                                                       TimePoint now) {
  if (const std::optional<NewRate> lowered = judgeRaised(measured.secondsPerByte, now)) return lowered;
  for (size_t server = 0; server < servers_.size(); ++server) {
    if (servers_[server].slow < kEvidence || factors[server] <= kMinRate) continue;
    servers_[server].nextTry = now + steadyTime(servers_[server].wait);
    const double slower = std::max(measured.ratios[server], measured.secondsPerByte / fastest_);
    return NewRate{server, std::max(kMinRate, kMargin * factors[server] / slower)};
  }
  return raise(measured.secondsPerByte, factors, now);
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
  server.nextTry = now + steadyTime(server.wait);
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
