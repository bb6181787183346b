#include "tools/bps_topo/split_report.h"

#include <fmt/core.h>

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr double kBytesPerGbit = 1e9 / 8;

Result<std::vector<double>> ratesOf(const std::vector<double>& gbps, size_t machines, const char* option) {
  if (gbps.size() != 1 && gbps.size() != machines)
    return failure(Code::kInvalidArgument, "{}: {} rates for {} machines, expected one rate or one per machine", option,
                   gbps.size(), machines);
  std::vector<double> rates(machines, gbps.front() * kBytesPerGbit);
  for (size_t i = 0; i < machines && gbps.size() == machines; ++i) rates[i] = gbps[i] * kBytesPerGbit;
  return rates;
}

Result<double> secondsOf(const Rates& rates, uint64_t bytes) {
  const Shares shares = BPS_TRY(solveShares(rates));
  return shares.secondsPerByte * static_cast<double>(bytes);
}

// Returns one line for each sequence of owners with equal rates and shares.
std::string ownerLines(const char* noun, const std::vector<double>& rates, const std::vector<double>& shares,
                       const std::vector<double>& traffic) {
  std::string text;
  for (size_t first = 0, end = 0; first < rates.size(); first = end) {
    while (end < rates.size() && rates[end] == rates[first] && shares[end] == shares[first]) ++end;
    const std::string who =
        end - first == 1 ? fmt::format("{} {}", noun, first) : fmt::format("{}s {}-{}", noun, first, end - 1);
    text += fmt::format("{:<18} {:>10.4g} {:>10.6f} {:>16.0f}\n", who, rates[first] / kBytesPerGbit, shares[first],
                        traffic[first]);
  }
  return text;
}

struct NicTraffic {
  std::vector<double> workers, servers;  // bytes in each direction of a NIC
};

NicTraffic trafficOf(const SplitReport& report) {
  const auto bytes = static_cast<double>(report.request.bytes);
  const size_t n = report.request.workers;
  NicTraffic traffic;
  for (double share : report.shares.workers) traffic.workers.push_back(bytes * workerTraffic(n, share));
  for (double share : report.shares.servers) traffic.servers.push_back(bytes * serverTraffic(n, share));
  return traffic;
}

double speedUp(double before, double after) { return after > 0 ? before / after : 1; }

}  // namespace

Result<SplitReport> makeSplitReport(const SplitRequest& request) {
  SplitReport report;
  report.request = request;
  report.rates.workers = BPS_TRY(ratesOf(request.workerGbps, request.workers, "--worker-gbps"));
  report.rates.servers = BPS_TRY(ratesOf(request.serverGbps, request.servers, "--server-gbps"));
  report.shares = BPS_TRY(solveShares(report.rates));
  report.secondsWithout = BPS_TRY(secondsOf({report.rates.workers, {}}, request.bytes));
  Rates more = report.rates;
  const std::vector<double>& like = more.servers.empty() ? more.workers : more.servers;
  more.servers.push_back(*std::max_element(like.begin(), like.end()));
  report.secondsWithMore = BPS_TRY(secondsOf(more, request.bytes));
  return report;
}

std::string splitText(const SplitReport& report) {
  const NicTraffic traffic = trafficOf(report);
  std::string text = fmt::format("{:<18} {:>10} {:>10} {:>16}\n", "owner", "Gbit/s", "share", "bytes each way");
  text += ownerLines("worker", report.rates.workers, report.shares.workers, traffic.workers);
  text += ownerLines("server", report.rates.servers, report.shares.servers, traffic.servers);
  const double seconds = report.seconds();
  text += fmt::format("time for {} bytes: {:.6g} s (algbw {:.4g} GB/s)\n", report.request.bytes, seconds,
                      seconds > 0 ? static_cast<double>(report.request.bytes) / seconds / 1e9 : 0);
  text += fmt::format("speed-up over no server: {:.4g} ({:.6g} s)\n", speedUp(report.secondsWithout, seconds),
                      report.secondsWithout);
  text += fmt::format("one more server: {:.6g} s, {:.4g} times as fast\n", report.secondsWithMore,
                      speedUp(seconds, report.secondsWithMore));
  return text;
}

nlohmann::ordered_json splitJson(const SplitReport& report) {
  const NicTraffic traffic = trafficOf(report);
  return {
      {"workers", report.request.workers},
      {"servers", report.request.servers},
      {"bytes", report.request.bytes},
      {"shares", {{"workers", report.shares.workers}, {"servers", report.shares.servers}}},
      {"traffic_bytes", {{"workers", traffic.workers}, {"servers", traffic.servers}}},
      {"seconds", report.seconds()},
      {"seconds_without_servers", report.secondsWithout},
      {"speed_up", speedUp(report.secondsWithout, report.seconds())},
      {"seconds_with_one_more_server", report.secondsWithMore},
  };
}

}  // namespace bps
