#include "perf/report/json.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>

#include "src/base/format.h"
#include "src/base/io/fd.h"

namespace bps::perf {
namespace {

using Json = nlohmann::ordered_json;
const char* boolText(bool value) { return value ? "true" : "false"; }
Json finiteOrNan(double value) { return std::isfinite(value) ? Json(value) : Json("nan"); }

Json deviceList(const JobFacts& facts) {
  Json list = Json::array();
  for (const RankDevice& device : facts.devices) {
    list.push_back({{"rank", device.rank},
                    {"group", device.group},
                    {"pid", device.pid},
                    {"hostname", device.host},
                    {"device", device.number},
                    {"device_hex", fmt::format("{:#04x}", device.number)},
                    {"device_info", device.name.empty() ? "CPU, host memory" : device.name}});
  }
  return list;
}

Json config(const Options& o, const JobFacts& facts) {
  Json json = {
      {"nthreads", o.threads}, {"ngpus", o.gpus}, {"minimum_bytes", o.minBytes}, {"maximum_bytes", o.maxBytes}};
  if (o.stepFactor > 1) json["step_factor"] = o.stepFactor;
  else json["step_bytes"] = o.stepBytes;
  json["warmup_iters"] = o.warmup;
  json["iterations"] = o.iterations;
  json["aggregated_iterations"] = o.aggregated;
  json["validation"] = o.checks;
  json["graph"] = o.graph;
  json["blocking_collectives"] = boolText(o.blocking != 0);
  json["per_iter_timing"] = boolText(o.perIteration != 0);
  json["per_iter_skip"] = o.skipIterations;
  json["parallel_init"] = boolText(o.parallelInit != 0);
  json["devices"] = deviceList(facts);
  return json;
}

Json measurementJson(const Options& o, const Measurement& m) {
  return {{o.cpuTime != 0 ? "cpu_time" : "time", finiteOrNan(m.micros)},
          {"alg_bw", finiteOrNan(m.algbw)},
          {"bus_bw", finiteOrNan(m.busbw)},
          {"nwrong", m.checked ? Json(m.wrong) : Json()}};
}

Json perIteration(const Options& o, const IterationTimes& t) {
  return {{"skipped_iterations", o.skipIterations},
          {"min_us", finiteOrNan(t.least)},
          {"max_us", finiteOrNan(t.most)},
          {"avg_us", finiteOrNan(t.mean)},
          {"p50_us", finiteOrNan(t.p50)},
          {"p95_us", finiteOrNan(t.p95)},
          {"p99_us", finiteOrNan(t.p99)},
          {"stdev_us", finiteOrNan(t.deviation)},
          {"cv_pct", finiteOrNan(t.variation())},
          {"times_us", t.micros},
          {"per_process_max_times_us", Json::array({t.micros})}};
}

Json result(const Options& o, const Row& row) {
  Json json = {{"size", row.bytes}, {"count", row.count}, {"type", row.type}, {"redop", row.op}, {"root", "    -1"}};
  json["out_of_place"] = measurementJson(o, row.outOfPlace);
  if (o.perIteration != 0) json["out_of_place_per_iter"] = perIteration(o, row.outOfPlace.iterations);
  json["in_place"] = measurementJson(o, row.inPlace);
  if (o.perIteration != 0) json["in_place_per_iter"] = perIteration(o, row.inPlace.iterations);
  json["actual_iterations"] = o.iterations;
  json["experiment_name"] = "all_reduce_perf";
  return json;
}

}  // namespace

std::string jsonText(const Options& options, const JsonReport& report) {
  Json json = {{"version", 3}, {"start_time", report.startTime}, {"args", report.arguments}};
  json["env"] = Json::array();
  for (const auto& [name, value] : report.environment) json["env"].push_back(fmt::format("{}={}", name, value));
  json["nccl_version"] = report.facts.library;
  json["config"] = config(options, report.facts);
  json["results"] = Json::array();
  for (const Row& row : report.rows) json["results"].push_back(result(options, row));
  json["out_of_bounds"] = {{"count", report.outOfBounds}, {"okay", boolText(report.outOfBounds == 0)}};
  const bool enough = report.averageBusBw >= 0.9 * report.leastBw;
  json["average_bus_bandwidth"] = {{"bandwidth", finiteOrNan(report.averageBusBw)},
                                   {"okay", report.leastBw <= 0 ? "unchecked" : boolText(enough)}};
  json["errors"] = report.errors;
  json["end_time"] = report.endTime;
  json["bps"] = Json::parse(report.facts.description, nullptr, false);
  if (json["bps"].is_discarded()) json["bps"] = nullptr;
  json["bps_exit_code"] = report.exitCode;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<std::string> writeNewFile(const std::string& name, const std::string& text) {
  std::string path = name;
  int fd = -1;
  for (int next = 0; next < 10000; ++next) {
    fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd >= 0 || errno != EEXIST) break;
    path = fmt::format("{}.{}", name, next);
  }
  if (fd < 0) return systemFailure("-J " + path, errno);
  const UniqueFd file(fd);
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(fd, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return systemFailure("-J " + path, errno);
    done += static_cast<size_t>(wrote);
  }
  return path;
}

std::string timeText() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &local);
  return text;
}

}  // namespace bps::perf
