// The measurements that follow the rules: the latency of 8-byte messages, and the bandwidth of
// large messages. Both sides poll without pause, as NCCL's threads do.
#include "tools/net_plugin_check/bench/pipelined_transfer.h"
#include "tools/net_plugin_check/bench/poller.h"
#include "tools/net_plugin_check/bench/timing.h"
#include "tools/net_plugin_check/rules/rules.h"

namespace bps::check {
namespace {

constexpr double kSecondsPerSize = 0.25;

Result<std::string> latency(Side& side) {
  std::vector<int64_t> times = BPS_TRY(pluginRoundTrips(side, {}));
  if (!side.sends()) return std::string();
  std::sort(times.begin(), times.end());
  const auto oneWayUs = [&](size_t percent) { return static_cast<double>(times[times.size() * percent / 100]) / 2e3; };
  side.measure("latency_us_median", oneWayUs(50));
  side.measure("latency_us_p99", oneWayUs(99));
  return fmt::format("8 bytes one way: median {:.2f} us, p99 {:.2f} us ({} round trips)", oneWayUs(50), oneWayUs(99),
                     times.size());
}

// Returns the bandwidth for messages of `bytes` bytes, in Gbit/s.
Result<double> bandwidthOf(Side& side, void* comm, size_t bytes) {
  Buffer buffer = BPS_TRY(Buffer::create(side, comm, PipelinedTransfer::kInFlight * bytes));
  PipelinedTransfer transfer(side, comm, side.sends(), buffer, bytes);
  const auto run = [&](size_t count) -> Status {
    transfer.start(count);
    const std::array<PipelinedTransfer*, 1> transfers{&transfer};
    return drive(side, transfers, Idle(side, false));
  };
  const Load load{.bytesEach = bytes, .seconds = kSecondsPerSize, .run = run};
  const Timing timing = BPS_TRY(timed(side, load));
  BPS_TRY(buffer.release(side, comm));
  return timing.gbps;
}

Result<std::string> bandwidth(Side& side) {
  void* comm = BPS_TRY(side.connectOne());
  std::string detail;
  for (const auto& [name, bytes] :
       {std::pair<const char*, size_t>{"64K", size_t{64} << 10}, {"1M", size_t{1} << 20}, {"4M", size_t{4} << 20}}) {
    const double gbps = BPS_TRY(bandwidthOf(side, comm, bytes));
    if (side.sends()) continue;
    side.measure(fmt::format("bandwidth_gbps_{}", name).c_str(), gbps);
    detail += fmt::format("{}{}: {:.1f} Gbit/s", detail.empty() ? "8 in flight: " : ", ", name, gbps);
  }
  BPS_TRY(side.close(comm));
  return detail;
}

constexpr std::array<Rule, 2> kMeasurements{{
    {"latency", "8 bytes one way: half of a round trip", latency, Scenario::kBothClose, true, true},
    {"bandwidth", "messages of 64K, 1M and 4M, 8 in flight", bandwidth, Scenario::kBothClose, true, true},
}};

}  // namespace

std::span<const Rule> measurements() { return kMeasurements; }

}  // namespace bps::check
