#include "tools/bps_topo/fabric/fabric_costs.h"

#include <charconv>
#include <set>

#include "src/base/format.h"

namespace bps {
namespace {

// The switches of n ports that a Fat-tree has for every n machines: 5 p^2 / 4 for p^3 / 4 machines, with p = n.
constexpr double kFatTreeSwitches = 5;

double asDouble(size_t value) { return static_cast<double>(value); }

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

std::vector<Bcube> comparedShapes(const Bcube& shape) {
  std::set<size_t> sizes = {2, 3, 4, 8, 16, 32, 64};
  sizes.insert(shape.n());
  std::vector<Bcube> shapes;
  for (const size_t n : sizes)
    if (Result<Bcube> each = Bcube::create(n, shape.k()); each.ok()) shapes.push_back(std::move(each).value());
  return shapes;
}

FabricTimes fabricTimes(const Bcube& shape) {
  FabricTimes times;
  times.bml = shape.time();
  times.oneNic = times.bml * asDouble(shape.k());
  times.oneNicSameCost = times.oneNic * fatTreeCost(shape).ports / bcubeCost(shape).ports;
  times.parameterServer = 2 * asDouble(shape.n() - 1) / asDouble(shape.n());
  return times;
}

FabricCost bcubeCost(const Bcube& shape) {
  const double ports = asDouble(shape.k() * shape.machines());
  return {ports / asDouble(shape.n()), ports, ports};
}

FabricCost fatTreeCost(const Bcube& shape) {
  const double ports = kFatTreeSwitches * asDouble(shape.machines());
  return {ports / asDouble(shape.n()), ports, asDouble(shape.machines())};
}

}  // namespace bps
