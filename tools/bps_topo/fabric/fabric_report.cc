#include "tools/bps_topo/fabric/fabric_report.h"

#include "src/base/format.h"
#include "tools/bps_topo/fabric/fabric_costs.h"

namespace bps {
namespace {

constexpr double kBytesPerGbit = 1e9 / 8;

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

struct Line {
  const char* name;
  const char* formula;
  double time;
};

std::vector<Line> linesOf(const FabricTimes& times) {
  return {{"bps on the BCube", "2(N-1)/(kN)", times.bml},
          {"one NIC per machine, ring on a Fat-tree", "2(N-1)/N", times.oneNic},
          {"the same with switches of the BCube's cost", "5/k of that", times.oneNicSameCost},
          {"parameter server spread over the BCube", "2(n-1)/n", times.parameterServer}};
}

std::string stepsText(const Bcube& shape, const FabricRequest& request) {
  std::string text = fmt::format(
      "\n{} threads of {:.0f} bytes, {} pieces each, one per machine. Bytes to each neighbour of a level ({}):\n",
      shape.k(), static_cast<double>(request.bytes) / asDouble(shape.k()), shape.machines(), shape.n() - 1);
  text += fmt::format("{:<12} {:>4}  {:<18} {:>14} {:>10}\n", "phase", "step", "level by thread", "bytes", "seconds");
  for (const Step& step : stepsOf(shape, request.bytes))
    text += fmt::format("{:<12} {:>4}  {:<18} {:>14.0f} {:>10.4g}\n", step.aggregates ? "aggregate" : "distribute",
                        step.step, levelsOf(shape, step.step), step.bytes,
                        step.bytes * asDouble(shape.n() - 1) / (request.linkGbps * kBytesPerGbit));
  return text;
}

std::string timesText(const FabricTimes& times, double whole) {
  std::string text = fmt::format("\n{:<43} {:<12} {:>10} {:>8} {:>8}\n", "time of an all-reduce", "formula", "seconds",
                                 "of M/B", "ratio");
  for (const Line& line : linesOf(times))
    text += fmt::format("{:<43} {:<12} {:>10.4g} {:>8.4f} {:>8.3f}\n", line.name, line.formula, line.time * whole,
                        line.time, line.time / times.bml);
  return text +
         "M: bytes of the call, B: rate of a link, N = n^k machines. The third line takes the cost of a switch to be\n"
         "proportional to its ports and their rate, and leaves out NICs and cables.\n";
}

std::string comparisonText(const Bcube& shape) {
  std::string text = fmt::format("\nTimes of M/B, and what the networks need, for k = {}:\n", shape.k());
  text += fmt::format("{:<12} {:>8}  {:-^26}  {:-^21}  {:-^21}\n", "", "", " time ", " BCube ", " Fat-tree ");
  text += fmt::format("{:<12} {:>8}  {:>8} {:>8} {:>8}  {:>8} {:>6} {:>5}  {:>8} {:>6} {:>5}\n", "shape", "machines",
                      "bps", "one NIC", "server", "switches", "ports", "NICs", "switches", "ports", "NICs");
  for (const Bcube& each : comparedShapes(shape)) {
    const FabricTimes times = fabricTimes(each);
    const FabricCost bcube = bcubeCost(each), tree = fatTreeCost(each);
    text += fmt::format("{:<12} {:>8}  {:>8.4f} {:>8.4f} {:>8.4f}  {:>8g} {:>6g} {:>5g}  {:>8.5g} {:>6g} {:>5g}\n",
                        each.text(), each.machines(), times.bml, times.oneNic, times.parameterServer, bcube.switches,
                        bcube.ports, bcube.nics, tree.switches, tree.ports, tree.nics);
  }
  return text +
         "one NIC: a ring, a parameter server or the schedule of bps on a Fat-tree. server: a parameter server spread\n"
         "over the BCube. Fat-tree: 5N/n switches of n ports is an estimate; for any other switches, it has 5N ports "
         "too.\n";
}

nlohmann::ordered_json costJson(const FabricCost& cost) {
  return {{"switches", cost.switches}, {"ports", cost.ports}, {"nics", cost.nics}};
}

nlohmann::ordered_json comparisonJson(const Bcube& shape) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Bcube& each : comparedShapes(shape)) {
    const FabricTimes times = fabricTimes(each);
    rows.push_back({{"fabric", each.text()},
                    {"machines", each.machines()},
                    {"time", times.bml},
                    {"time_one_nic", times.oneNic},
                    {"time_parameter_server", times.parameterServer},
                    {"bcube", costJson(bcubeCost(each))},
                    {"fat_tree", costJson(fatTreeCost(each))}});
  }
  return rows;
}

}  // namespace

Result<std::string> fabricText(const FabricRequest& request) {
  const Bcube shape = BPS_TRY(parseShape(request.shape));
  const double whole = static_cast<double>(request.bytes) / (request.linkGbps * kBytesPerGbit);
  return fmt::format("{}: {} machines with {} NICs of {:g} Gbit/s, {:g} switches of {} ports\n", shape.text(),
                     shape.machines(), shape.k(), request.linkGbps, bcubeCost(shape).switches, shape.n()) +
         stepsText(shape, request) + timesText(fabricTimes(shape), whole) + comparisonText(shape);
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
      {"bcube", costJson(bcubeCost(shape))},
      {"fat_tree", costJson(fatTreeCost(shape))},
      {"comparison", comparisonJson(shape)},
  };
}

}  // namespace bps
