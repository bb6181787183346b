#include "tools/bps_topo/fabric/fabric_report.h"

#include <charconv>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr double kBytesPerGbit = 1e9 / 8;
constexpr double kFatTreeSwitches = 5;  // of n ports, for n machines

double asDouble(size_t value) { return static_cast<double>(value); }

// One step of all threads. Every machine sends `bytes` to each of its (n - 1) neighbours of every level.
struct Step {
  bool aggregates = true;
  size_t step = 0;
  double bytes = 0;
};

std::vector<Step> stepsOf(const Bcube& shape, uint64_t bytes) {
  std::vector<Step> steps;
  for (size_t stage = 0; stage < 2 * shape.k(); ++stage) {
    const bool aggregates = stage < shape.k();
    const size_t step = aggregates ? stage : 2 * shape.k() - 1 - stage;
    const Bcube::Cells cells = shape.cells(0, 0, step + 1);
    steps.push_back({aggregates, step,
                     static_cast<double>(bytes) * asDouble(cells.count) / asDouble(shape.k() * shape.machines())});
  }
  return steps;
}

std::string levelsOf(const Bcube& shape, size_t step) {
  std::string text;
  for (size_t thread = 0; thread < shape.k(); ++thread)
    text += fmt::format("{}{}", thread == 0 ? "" : " ", shape.levelOf(thread, step));
  return text;
}

// The shapes of the comparison: those with the same k, and the requested one.
std::vector<Bcube> comparedWith(const Bcube& shape) {
  std::vector<Bcube> shapes;
  for (size_t n = 2; n <= 64; n *= 2) {
    if (n > shape.n() && (shapes.empty() || shapes.back().n() < shape.n())) shapes.push_back(shape);
    Result<Bcube> other = Bcube::create(n, shape.k());
    if (other.ok()) shapes.push_back(std::move(other).value());
  }
  if (shapes.back().n() < shape.n()) shapes.push_back(shape);
  return shapes;
}

struct Line {
  const char* name;
  double time;
};

std::vector<Line> linesOf(const FabricTimes& times) {
  return {{"bps on the BCube", times.bml},
          {"ring on a Fat-tree, one NIC per machine", times.oneNic},
          {"the same with the BCube's number of switches", times.oneNicSameCost},
          {"parameter server spread over the BCube", times.parameterServer}};
}

}  // namespace

Result<Bcube> parseShape(const std::string& text) {
  const auto bad = [&](const std::string& why) {
    return failure(Code::kInvalidArgument, "--fabric {}: {}; use bcube:N,K or hypercube:K", text, why);
  };
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (colon == std::string::npos || (kind != "bcube" && kind != "hypercube")) return bad("no kind of fabric");
  std::vector<size_t> numbers;
  const char *at = text.data() + colon + 1, *end = text.data() + text.size();
  while (true) {
    size_t number = 0;
    const auto [next, error] = std::from_chars(at, end, number);
    if (error != std::errc() || numbers.size() == 2) return bad("not the numbers of a shape");
    numbers.push_back(number);
    if (next == end) break;
    if (*next != ',') return bad("not the numbers of a shape");
    at = next + 1;
  }
  if (numbers.size() != (kind == "bcube" ? 2U : 1U)) return bad("not the numbers of a shape");
  Result<Bcube> shape = kind == "bcube" ? Bcube::create(numbers[0], numbers[1]) : Bcube::create(2, numbers[0]);
  if (!shape.ok()) return bad(shape.error().message());
  return shape;
}

FabricTimes fabricTimes(const Bcube& shape) {
  FabricTimes times;
  times.bml = shape.time();
  times.oneNic = times.bml * asDouble(shape.k());
  times.oneNicSameCost = times.oneNic * std::max(1.0, fatTreeSwitches(shape) / bcubeSwitches(shape));
  times.parameterServer = 2 * asDouble(shape.n() - 1) / asDouble(shape.n());
  return times;
}

double bcubeSwitches(const Bcube& shape) { return asDouble(shape.k() * shape.machines() / shape.n()); }
double fatTreeSwitches(const Bcube& shape) {
  return kFatTreeSwitches * asDouble(shape.machines()) / asDouble(shape.n());
}

Result<std::string> fabricText(const FabricRequest& request) {
  const Bcube shape = BPS_TRY(parseShape(request.shape));
  const double whole = static_cast<double>(request.bytes) / (request.linkGbps * kBytesPerGbit);
  std::string text =
      fmt::format("{}: {} machines with {} NICs of {:g} Gbit/s, {:g} switches of {} ports\n", shape.text(),
                  shape.machines(), shape.k(), request.linkGbps, bcubeSwitches(shape), shape.n());
  text +=
      fmt::format("\n{} threads of {:.0f} bytes, {} pieces each, one per machine. Bytes to each of {} neighbours:\n",
                  shape.k(), static_cast<double>(request.bytes) / asDouble(shape.k()), shape.machines(), shape.n() - 1);
  text += fmt::format("{:<12} {:>4}  {:<18} {:>14} {:>10}\n", "phase", "step", "level by thread", "bytes", "seconds");
  for (const Step& step : stepsOf(shape, request.bytes))
    text += fmt::format("{:<12} {:>4}  {:<18} {:>14.0f} {:>10.4g}\n", step.aggregates ? "aggregate" : "distribute",
                        step.step, levelsOf(shape, step.step), step.bytes,
                        step.bytes * asDouble(shape.n() - 1) / (request.linkGbps * kBytesPerGbit));
  text += fmt::format("\n{:<46} {:>10} {:>8} {:>8}\n", "time of an all-reduce", "seconds", "of M/B", "ratio");
  const FabricTimes times = fabricTimes(shape);
  for (const Line& line : linesOf(times))
    text += fmt::format("{:<46} {:>10.4g} {:>8.4f} {:>8.3f}\n", line.name, line.time * whole, line.time,
                        line.time / times.bml);
  text += fmt::format("\nTimes of M/B, and switches of n ports, for k = {}:\n", shape.k());
  text += fmt::format("{:<12} {:>8} {:>8} {:>10} {:>14} {:>9} {:>9}\n", "BCube", "machines", "bps", "Fat-tree",
                      "server, BCube", "switches", "Fat-tree");
  for (const Bcube& each : comparedWith(shape)) {
    const FabricTimes of = fabricTimes(each);
    text += fmt::format("{:<12} {:>8} {:>8.4f} {:>10.4f} {:>14.4f} {:>9g} {:>9g}\n", each.text(), each.machines(),
                        of.bml, of.oneNic, of.parameterServer, bcubeSwitches(each), fatTreeSwitches(each));
  }
  return text;
}

Result<nlohmann::ordered_json> fabricJson(const FabricRequest& request) {
  const Bcube shape = BPS_TRY(parseShape(request.shape));
  const double whole = static_cast<double>(request.bytes) / (request.linkGbps * kBytesPerGbit);
  const FabricTimes times = fabricTimes(shape);
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const Step& step : stepsOf(shape, request.bytes)) {
    nlohmann::ordered_json levels = nlohmann::ordered_json::array();
    for (size_t thread = 0; thread < shape.k(); ++thread) levels.push_back(shape.levelOf(thread, step.step));
    steps.push_back({{"phase", step.aggregates ? "aggregate" : "distribute"},
                     {"step", step.step},
                     {"level_by_thread", levels},
                     {"bytes_per_neighbour", step.bytes}});
  }
  return nlohmann::ordered_json{
      {"fabric", shape.text()},
      {"machines", shape.machines()},
      {"bytes", request.bytes},
      {"steps", steps},
      {"bytes_per_link", static_cast<double>(request.bytes) * times.bml},
      {"seconds", times.bml * whole},
      {"seconds_one_nic", times.oneNic * whole},
      {"seconds_one_nic_same_cost", times.oneNicSameCost * whole},
      {"seconds_parameter_server", times.parameterServer * whole},
      {"switches", {{"bcube", bcubeSwitches(shape)}, {"fat_tree", fatTreeSwitches(shape)}}},
  };
}

}  // namespace bps
