#include "perf/app/launcher.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "src/base/format.h"

namespace bps::perf {
namespace {

struct Launcher {
  const char* rank;
  const char* ranks;
};
constexpr std::array<Launcher, 5> kLaunchers = {{{"BPS_RANK", "BPS_NRANKS"},
                                                 {"RANK", "WORLD_SIZE"},
                                                 {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                 {"PMI_RANK", "PMI_SIZE"},
                                                 {"SLURM_PROCID", "SLURM_NTASKS"}}};
constexpr std::array<std::string_view, 8> kShown = {
    "LOCAL_RANK",   "MASTER_ADDR",   "MASTER_PORT",  "SLURM_JOB_ID",
    "SLURM_NODEID", "SLURM_LOCALID", "SLURM_NNODES", "OMPI_COMM_WORLD_LOCAL_RANK"};

bool given(Lookup lookup, const char* name) { return lookup(name) != nullptr && *lookup(name) != 0; }

Result<int> wholeNumber(Lookup lookup, const char* name, int least, int most) {
  auto number = parseNumber(lookup(name));
  if (number.ok()) {
    const double value = std::move(number).value();
    if (value >= least && value <= most && value == static_cast<int>(value)) return static_cast<int>(value);
  }
  return failure(Code::kInvalidUsage, "{}={}: not a whole number from {} to {}", name, lookup(name), least, most);
}

// torchrun's own meeting point uses MASTER_PORT; the next one is free by convention.
Status chooseRoot(Lookup lookup, Place& place) {
  if (place.processes == 1 || given(lookup, "BPS_ROOT")) return {};
  if (!given(lookup, "MASTER_ADDR") || !given(lookup, "MASTER_PORT")) {
    return failure(
        Code::kInvalidUsage,
        "{}: {} processes need a place to meet: set BPS_ROOT=HOST:PORT, an address of the first one's machine",
        place.source, place.processes);
  }
  const int port = BPS_TRY(wholeNumber(lookup, "MASTER_PORT", 1, 65534));
  const std::string host = lookup("MASTER_ADDR");
  const bool bare6 = host.find(':') != std::string::npos && host[0] != '[';
  place.root = fmt::format("{}{}{}:{}", bare6 ? "[" : "", host, bare6 ? "]" : "", port + 1);
  place.notes.push_back(fmt::format("BPS_ROOT={}, from MASTER_ADDR and MASTER_PORT + 1", place.root));
  return {};
}

std::optional<int> parseInteger(std::string_view text, int base) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

std::optional<int> parsePrefixed(std::string_view text) {
  if (text.starts_with("0x") || text.starts_with("0X")) return parseInteger(text.substr(2), 16);
  if (text.starts_with("0b") || text.starts_with("0B")) return parseInteger(text.substr(2), 2);
  return parseInteger(text, 10);
}

struct SplitRule {
  std::string_view word, sign;
  int (*color)(int process, int number);
  int least;  // number
};
constexpr std::array<SplitRule, 4> kSplitRules = {{{"AND", "&", [](int p, int x) { return p & x; }, 0},
                                                   {"OR", "|", [](int p, int x) { return p | x; }, 0},
                                                   {"MOD", "%", [](int p, int x) { return p % x; }, 1},
                                                   {"DIV", "/", [](int p, int x) { return p / x; }, 1}}};

std::optional<int> colorByRule(std::string_view text, int process) {
  std::string upper(text);
  std::transform(upper.begin(), upper.end(), upper.begin(), [](unsigned char c) { return std::toupper(c); });
  for (const SplitRule& rule : kSplitRules) {
    for (const std::string_view name : {rule.word, rule.sign}) {
      if (!upper.starts_with(name)) continue;
      const auto number = parsePrefixed(text.substr(name.size()));
      if (number && *number >= rule.least) return rule.color(process, *number);
    }
  }
  return std::nullopt;
}

bool mayBeSecret(std::string_view name) {
  if (name == "BPS_KEY_FILE") return false;  // a path
  constexpr std::array<std::string_view, 4> kWords = {"KEY", "SECRET", "TOKEN", "PASS"};
  return std::any_of(kWords.begin(), kWords.end(),
                     [&](std::string_view word) { return name.find(word) != std::string_view::npos; });
}

bool isShown(std::string_view name) {
  if (mayBeSecret(name)) return false;
  if (name.starts_with("BPS_") || name.starts_with("NCCL_")) return true;
  for (const Launcher& each : kLaunchers) {
    if (name == each.rank || name == each.ranks) return true;
  }
  return std::find(kShown.begin(), kShown.end(), name) != kShown.end();
}

}  // namespace

Result<Place> findPlace(Lookup lookup) {
  Place place;
  for (const Launcher& each : kLaunchers) {
    if (!given(lookup, each.rank) && !given(lookup, each.ranks)) continue;
    if (!given(lookup, each.rank) || !given(lookup, each.ranks)) {
      if (each.rank != kLaunchers[0].rank) continue;  // names as general as RANK may mean something else
      return failure(Code::kInvalidUsage, "{} and {} must both be set", each.rank, each.ranks);
    }
    place.processes = BPS_TRY(wholeNumber(lookup, each.ranks, 1, 1 << 20));
    place.process = BPS_TRY(wholeNumber(lookup, each.rank, 0, place.processes - 1));
    place.source = fmt::format("{}={} {}={}", each.rank, place.process, each.ranks, place.processes);
    break;
  }
  BPS_TRY(chooseRoot(lookup, place));
  return place;
}

Result<std::optional<int>> splitColor(Lookup lookup, int process) {
  if (given(lookup, "NCCL_TESTS_SPLIT_MASK")) {
    const std::string_view text = lookup("NCCL_TESTS_SPLIT_MASK");
    const auto mask = parseInteger(text.starts_with("0x") ? text.substr(2) : text, 16);
    if (mask) return std::optional<int>(process & *mask);
    return failure(Code::kInvalidUsage, "NCCL_TESTS_SPLIT_MASK={}: not a hexadecimal number below 0x80000000", text);
  }
  if (!given(lookup, "NCCL_TESTS_SPLIT")) return std::optional<int>();
  const char* text = lookup("NCCL_TESTS_SPLIT");
  const auto color = colorByRule(text, process);
  if (color) return color;
  return failure(Code::kInvalidUsage,
                 "NCCL_TESTS_SPLIT={}: not AND, OR, MOD or DIV with a number, such as MOD2 or &0x1", text);
}

Lookup processLookup() {
  return [](const char* name) -> const char* { return std::getenv(name); };
}

void setRoot(const std::string& root) { ::setenv("BPS_ROOT", root.c_str(), 1); }

std::map<std::string, std::string> shownEnvironment(const char* const* environment) {
  std::map<std::string, std::string> shown;
  for (; *environment != nullptr; ++environment) {
    const std::string_view line = *environment;
    const size_t end = line.find('=');
    if (end != std::string_view::npos && isShown(line.substr(0, end)))
      shown.emplace(line.substr(0, end), line.substr(end + 1));
  }
  return shown;
}

const char* const* processEnvironment() { return environ; }

}  // namespace bps::perf
