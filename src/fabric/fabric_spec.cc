#include "src/fabric/fabric_spec.h"

#include <charconv>
#include <map>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr const char* kForm =
    "bcube:n=N,k=K[,addresses=FILE][,address=DIGITS][,relay=PORT] or hypercube:k=K[,...] with the same options";

Status badFabric(const std::string& text, const std::string& why) {
  return failure(Code::kInvalidArgument, "BPS_FABRIC={}: {}; use {}", text, why, kForm);
}

Result<size_t> numberOf(const std::string& name, const std::string& value, size_t most) {
  size_t number = 0;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (error != std::errc() || end != value.data() + value.size() || number > most)
    return failure(Code::kInvalidArgument, "{}={} is not a number up to {}", name, value, most);
  return number;
}

}  // namespace

std::string FabricSpec::shapeText() const { return fmt::format("bcube:n={},k={}", shape.n(), shape.k()); }

Result<std::optional<FabricSpec>> parseFabric(const std::string& text) {
  if (text.empty()) return std::optional<FabricSpec>();
  const size_t colon = text.find(':');
  const std::string kind = text.substr(0, colon);
  if (kind != "bcube" && kind != "hypercube") return badFabric(text, "\"" + kind + "\" is no kind of fabric");
  std::map<std::string, std::string> options;
  std::string rest = colon == std::string::npos ? "" : text.substr(colon + 1);
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string option = rest.substr(0, comma);
    rest.erase(0, comma + 1);
    const size_t equals = option.find('=');
    if (equals == std::string::npos) return badFabric(text, "\"" + option + "\" is not NAME=VALUE");
    if (!options.emplace(option.substr(0, equals), option.substr(equals + 1)).second)
      return badFabric(text, "\"" + option.substr(0, equals) + "\" is given twice");
  }
  if (kind == "hypercube" && !options.emplace("n", "2").second) return badFabric(text, "a hypercube has n=2");
  for (const char* name : {"n", "k"})
    if (options.count(name) == 0) return badFabric(text, fmt::format("{} is missing", name));
  FabricSpec spec;
  std::map<std::string, size_t> numbers;
  for (const auto& [name, value] : options) {
    if (name == "addresses") spec.addressFile = value;
    else if (name == "address") spec.address = value;
    else if (name == "n" || name == "k" || name == "relay") {
      Result<size_t> number = numberOf(name, value, name == "relay" ? 65535 : Bcube::kMaxMachines);
      if (!number.ok()) return badFabric(text, number.error().message());
      numbers[name] = std::move(number).value();
    } else return badFabric(text, "\"" + name + "\" is no option");
  }
  Result<Bcube> shape = Bcube::create(numbers["n"], numbers["k"]);
  if (!shape.ok()) return badFabric(text, shape.error().message());
  spec.shape = std::move(shape).value();
  spec.relayPort = static_cast<uint16_t>(numbers["relay"]);
  if (!spec.address.empty()) {
    const Result<size_t> address = spec.shape.parseAddress(spec.address);
    if (!address.ok()) return badFabric(text, address.error().message());
  }
  return std::optional<FabricSpec>(std::move(spec));
}

}  // namespace bps
