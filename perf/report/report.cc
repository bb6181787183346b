#include "perf/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <nlohmann/json.hpp>
#include <numeric>

namespace bps::perf {
namespace {

// Appends formatted text.
template <class... Args>
void add(std::string& text, const char* format, Args... args) {
  char line[512];
  std::snprintf(line, sizeof line, format, args...);
  text += line;
}

double quantile(const std::vector<double>& sorted, double q) {
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::clamp(rank, size_t{1}, sorted.size()) - 1];
}

std::string list(const nlohmann::json& values) {
  std::string text;
  for (const auto& value : values) {
    if (!text.empty()) text += " ";
    add(text, "%.4g", value.get<double>());
  }
  return text.empty() ? "none" : text;
}

nlohmann::json parsed(const JobFacts& facts) {
  auto json = nlohmann::json::parse(facts.description, nullptr, false);
  return json.is_object() ? json : nlohmann::json::object();
}

int number(const nlohmann::json& json, const char* key, int fallback) {
  return json.contains(key) && json[key].is_number() ? json[key].get<int>() : fallback;
}

void addDescription(std::string& text, const JobFacts& facts) {
  const nlohmann::json json = parsed(facts);
  const int machines = number(json, "machines", facts.ranks), servers = number(json, "servers", 0);
  add(text, "# machines (n) %d servers (k) %d ranks %d\n", machines, servers, facts.ranks);
  if (json.contains("transport")) {
    const auto& transport = json["transport"];
    const std::string name = transport.is_string() ? transport.get<std::string>() : transport.dump();
    text += "# transport " + (name.empty() ? "none, one machine" : name) + "\n";
  }
  if (json.contains("shares")) {
    const auto& shares = json["shares"];
    text += "# shares of the workers: " + list(shares.value("workers", nlohmann::json::array()));
    text += "; of the servers: " + list(shares.value("servers", nlohmann::json::array())) + "\n";
  }
  if (facts.ranks == 1) text += "# one rank: no network, GB/s are those of a copy in memory (in place: of nothing)\n";
  if (servers == 0) return;
  add(text, "# busbw may exceed the NIC's rate: %d server%s part of the traffic\n", servers,
      servers == 1 ? " carries" : "s carry");
}

void addMeasurement(std::string& text, const Options& o, const Measurement& m) {
  text += "  " + floatText(m.micros, 7) + "  " + floatText(m.algbw, 6) + "  " + floatText(m.busbw, 6);
  if (m.checked) add(text, "  %6g", static_cast<double>(m.wrong));
  else text += "    N/A";
  if (o.perIteration == 0) return;
  const IterationTimes& t = m.iterations;
  for (const double value : {t.least, t.most, t.p99}) text += "  " + floatText(value, 7);
  text += "  " + floatText(t.variation(), 7);
}

}  // namespace

IterationTimes iterationTimes(std::vector<double> micros) {
  IterationTimes times;
  if (micros.empty()) return times;
  std::vector<double> sorted = micros;
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  times.least = sorted.front();
  times.most = sorted.back();
  times.mean = std::accumulate(sorted.begin(), sorted.end(), 0.0) / n;
  times.p50 = quantile(sorted, 0.50);
  times.p95 = quantile(sorted, 0.95);
  times.p99 = quantile(sorted, 0.99);
  double squares = 0;
  for (const double value : sorted) squares += (value - times.mean) * (value - times.mean);
  times.deviation = std::sqrt(squares / n);
  times.micros = std::move(micros);
  return times;
}

std::string floatText(double value, int width, int decimals) {
  for (int left = decimals; left >= 0; --left) {
    std::string text = fmt::format("{:{}.{}f}", value, width, left);
    if (text.size() <= static_cast<size_t>(width)) return text;
  }
  return fmt::format("{:{}.{}e}", value, width, width > 6 ? 1 : 0);
}

double busFactor(int ranks) { return 2.0 * (ranks - 1) / ranks; }

double idealSecondsPerByte(int machines, int servers, double bytesPerSecond) {
  const double n = machines, k = std::min(servers, machines);
  if (machines < 2) return 0;
  return 2 * n * (n - 1) / ((n * n + k * n - 2 * k) * bytesPerSecond);
}

std::string versionText() { return fmt::format("bps-perf {}.{}.{}\n", BPS_MAJOR, BPS_MINOR, BPS_PATCH); }

std::string headerText(const Options& o, const JobFacts& facts) {
  std::string text;
  add(text, "# bps-perf version %d.%d.%d bps-headers=%d bps-library=%d\n", BPS_MAJOR, BPS_MINOR, BPS_PATCH,
      facts.headers, facts.library);
  text += "# Collective test starting: all_reduce_perf\n";
  text += fmt::format(
      "# nThread {} nGpus {} minBytes {} maxBytes {} step: {}({}) warmup iters: {} iters: {} agg iters: {} "
      "validation: {} graph: {} unalign: {}\n#\n",
      o.threads, o.gpus, o.minBytes, o.maxBytes, o.stepFactor > 1 ? static_cast<uint64_t>(o.stepFactor) : o.stepBytes,
      o.stepFactor > 1 ? "factor" : "bytes", o.warmup, o.iterations, o.aggregated, o.checks, o.graph, o.unalign);
  constexpr std::array<const char*, 4> kBlocking = {"", "wait and barrier after each call (also of a group)",
                                                    "wait after each call (also of a group), no barrier",
                                                    "wait and barrier after each iteration, the barrier is not timed"};
  if (o.blocking > 0) text += fmt::format("# Blocking Enabled: {}\n", kBlocking[static_cast<size_t>(o.blocking)]);
  if (o.perIteration != 0) {
    text += "# Per-Iteration Report: host clock; i_* are of the slowest rank in each iteration";
    text += o.skipIterations > 0 ? fmt::format(", without the first {}\n", o.skipIterations) : "\n";
  }
  for (const std::string& note : o.notes) text += "# note: " + note + "\n";
  text += "# Using devices\n";
  for (const RankDevice& device : facts.devices) {
    const char* where = device.name.empty() ? "[host memory] CPU" : "[device memory] ";
    add(text, "#  Rank %2d Group %2d Pid %6d on %10s device %2d %s%s\n", device.rank, device.group, device.pid,
        device.host.c_str(), device.number, where, device.name.c_str());
  }
  addDescription(text, facts);
  return text + "#\n";
}

std::string columnsText(const Options& o) {
  const bool per = o.perIteration != 0;
  std::string first, second;
  add(first, "# %10s  %12s  %8s  %6s  %6s", "size", "count", "type", "redop", "root");
  add(second, "# %10s  %12s  %8s  %6s  %6s", "(B)", "(elements)", "", "", "");
  for (int half = 0; half < 2; ++half) {
    add(first, "  %7s  %6s  %6s  %6s", o.cpuTime != 0 ? "cputime" : "time", "algbw", "busbw", "#wrong");
    add(second, "  %7s  %6s  %6s  %6s", "(us)", "(GB/s)", "(GB/s)", "");
    if (!per) continue;
    add(first, "  %7s  %7s  %7s  %7s", "i_min", "i_max", "i_p99", "i_cv%");
    add(second, "  %7s  %7s  %7s  %7s", "(us)", "(us)", "(us)", "(%)");
  }
  if (o.timestamps != 0) {
    add(first, "%21s", "timestamp");
    add(second, "%21s", "");
  }
  std::string top;
  const char* what = per ? " (+ per-iteration)" : "";
  add(top, "# %10s  %12s  %8s  %6s  %6s%*s%s%*s%s%*s", "", "", "", "", "", per ? 26 : 23, "out-of-place", what,
      per ? 40 : 31, "in-place", what, per ? 0 : 10, "");
  return top + "\n" + first + "\n" + second + "\n";
}

std::string rowText(const Options& o, const Row& row) {
  std::string text;
  add(text, "%12lu  %12lu  %8s  %6s  %6i", static_cast<unsigned long>(row.bytes), static_cast<unsigned long>(row.count),
      row.type.c_str(), row.op.c_str(), -1);
  addMeasurement(text, o, row.outOfPlace);
  addMeasurement(text, o, row.inPlace);
  if (o.timestamps != 0) {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    char when[32];
    std::strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &local);
    add(text, "%21s", when);
  }
  return text + "\n";
}

double idealAlgBw(const Options& o, const JobFacts& facts) {
  const nlohmann::json json = parsed(facts);
  const double perByte =
      idealSecondsPerByte(number(json, "machines", facts.ranks), number(json, "servers", 0), o.linkGbps * 1e9 / 8);
  return o.linkGbps <= 0 || perByte <= 0 ? 0 : 1e-9 / perByte;
}

std::string idealText(const Options& o, const JobFacts& facts, const Row& row) {
  const double ideal = idealAlgBw(o, facts);
  if (ideal <= 0) return {};
  std::string text;
  add(text, "# %lu bytes: ideal algbw %.4g GB/s at %g Gbit/s, reached %.1f %% out of place, %.1f %% in place\n",
      static_cast<unsigned long>(row.bytes), ideal, o.linkGbps, 100 * row.outOfPlace.algbw / ideal,
      100 * row.inPlace.algbw / ideal);
  return text;
}

std::string pathText(const JobFacts& facts, uint64_t bytes) {
  const nlohmann::json json = parsed(facts);
  const auto limit = [&](const char* name) { return json.value(name, uint64_t{0}); };
  const uint64_t exchange = limit("exchangeBytes"), single = limit("singleOwnerBytes"), chunk = limit("chunkBytes");
  if (number(json, "machines", facts.ranks) < 2) return "shared memory";
  if (exchange > 0 && bytes <= exchange)
    return fmt::format("exchange, every machine sums all contributions (up to {} bytes)", exchange);
  if (bytes <= single) return fmt::format("single owner, which sums the whole call (up to {} bytes)", single);
  return fmt::format("split by the shares, in chunks of at most {} bytes", chunk);
}

std::string footerText(uint64_t outOfBounds, double averageBusBw, double leastBw) {
  std::string text;
  add(text, "# Out of bounds values : %lu %s\n", static_cast<unsigned long>(outOfBounds),
      outOfBounds > 0 ? "FAILED" : "OK");
  const char* verdict = leastBw <= 0 ? "" : averageBusBw >= 0.9 * leastBw ? "OK" : "FAILED";
  add(text, "# Avg bus bandwidth    : %g %s\n", averageBusBw, verdict);
  return text + "#\n# Collective test concluded: all_reduce_perf\n#\n";
}

void print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

}  // namespace bps::perf
