#include "perf/app/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "src/base/env/launch_env.h"
#include "src/base/format.h"

namespace bps::perf {
namespace {

constexpr std::array<std::string_view, 8> kShown = {
    "LOCAL_RANK",   "MASTER_ADDR",   "MASTER_PORT",  "SLURM_JOB_ID",
    "SLURM_NODEID", "SLURM_LOCALID", "SLURM_NNODES", "OMPI_COMM_WORLD_LOCAL_RANK"};

bool isSet(Lookup lookup, const char* name) { return lookup(name) != nullptr && *lookup(name) != 0; }

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
  return isLaunchVariable(name) || std::find(kShown.begin(), kShown.end(), name) != kShown.end();
}

}  // namespace

Result<std::optional<int>> splitColor(Lookup lookup, int process) {
  if (isSet(lookup, "NCCL_TESTS_SPLIT_MASK")) {
    const std::string_view text = lookup("NCCL_TESTS_SPLIT_MASK");
    const auto mask = parseInteger(text.starts_with("0x") ? text.substr(2) : text, 16);
    if (mask) return std::optional<int>(process & *mask);
    return failure(Code::kInvalidUsage, "NCCL_TESTS_SPLIT_MASK={}: not a hexadecimal number below 0x80000000", text);
  }
  if (!isSet(lookup, "NCCL_TESTS_SPLIT")) return std::optional<int>();
  const char* text = lookup("NCCL_TESTS_SPLIT");
  const auto color = colorByRule(text, process);
  if (color) return color;
  return failure(Code::kInvalidUsage,
                 "NCCL_TESTS_SPLIT={}: not AND, OR, MOD or DIV with a number, such as MOD2 or &0x1", text);
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
