#include "src/comm/servers/server_rates.h"

#include <algorithm>
#include <utility>

namespace bps {
namespace {

constexpr double kMargin = 0.9;     // of the rate that the busy times suggest: they include the latency of the network
constexpr double kNominal = 0.8;    // a rate above this becomes the nominal rate
constexpr double kMinLoad = 0.3;    // of a period; if no lane is busy for this long, the ratios say little

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

std::optional<ServerRates::NewRate> ServerRates::check(std::vector<Duration> busy, const std::vector<double>& factors,
                                                       TimePoint now) {
  if (now - lastCheck_ < kPeriod) return {};
  std::vector<double> ratios = ratiosSinceLast(std::move(busy), now - std::exchange(lastCheck_, now));
  std::optional<NewRate> found;
  if (now - lastChange_ >= kPause) found = judge(ratios, factors);
  if (found) {
    lastChange_ = now;
    ratios.clear();  // they belong to the old share
  }
  previous_ = std::move(ratios);
  return found;
}

// Returns, for every server, the busy time of its lane divided by the median of the other lanes' busy times. The ratio
// is 1 if it is unknown. Returns nothing if the lanes were hardly busy. Lanes without a share do not count.
std::vector<double> ServerRates::ratiosSinceLast(std::vector<Duration> busy, Duration elapsed) {
  last_.resize(busy.size());
  std::vector<double> times;
  for (size_t endpoint = 0; endpoint < busy.size(); ++endpoint)
    times.push_back((busy[endpoint] - last_[endpoint]).count());
  last_ = std::move(busy);
  if (*std::max_element(times.begin(), times.end()) < kMinLoad * elapsed.count()) return {};
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

// A ratio counts if two measurements in succession are beyond the same limit.
std::optional<ServerRates::NewRate> ServerRates::judge(const std::vector<double>& ratios,
                                                       const std::vector<double>& factors) const {
  for (size_t server = 0; server < ratios.size() && server < previous_.size(); ++server) {
    const double least = std::min(ratios[server], previous_[server]), most = std::max(ratios[server], previous_[server]);
    const bool slow = least > kSlow && factors[server] > kMinRate;
    if (!slow && (most >= kFast || factors[server] >= 1)) continue;
    const double factor = std::clamp(kMargin * factors[server] / (slow ? least : most), kMinRate, 1.0);
    return NewRate{server, factor < kNominal ? factor : 1};
  }
  return {};
}

}  // namespace bps
