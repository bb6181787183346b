#include "src/base/env/value.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <type_traits>

#include "src/base/format.h"
#include "src/base/io/address.h"

namespace bps {
namespace {

constexpr double kK = 1024, kM = kK * 1024, kG = kM * 1024;

Status notANumber() { return {Code::kInvalidArgument, "not a number"}; }

bool sameWord(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

bool isOneOf(std::string_view text, std::initializer_list<std::string_view> words) {
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) { return sameWord(text, word); });
}

Status parseInto(Bytes& out, std::string_view text) {
  out.value = BPS_TRY(parseBytes(text));
  return {};
}
Status parseInto(Seconds& out, std::string_view text) {
  out.value = BPS_TRY(parseNumber(text));
  return {};
}
Status parseInto(Gbps& out, std::string_view text) {
  out.value = BPS_TRY(parseNumber(text));
  return {};
}
Status parseInto(PortRange& out, std::string_view text) {
  out = BPS_TRY(parsePortRange(text));
  return {};
}
Status parseInto(int& out, std::string_view text) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size()) return notANumber();
  return {};
}
Status parseInto(bool& out, std::string_view text) {
  out = isOneOf(text, {"1", "true", "yes", "on"});
  if (out || isOneOf(text, {"0", "false", "no", "off"})) return {};
  return {Code::kInvalidArgument, "not a switch"};
}
Status parseInto(std::string& out, std::string_view text) {
  out = text;
  return {};
}

template <class T>
bool inRange(const EnvVar& var, const T& value) {
  if (var.most == 0) return true;
  if constexpr (std::is_same_v<T, int>) return value >= var.least && value <= var.most;
  if constexpr (std::is_same_v<T, Bytes>)
    return static_cast<double>(value.value) >= var.least && static_cast<double>(value.value) <= var.most;
  if constexpr (std::is_same_v<T, Seconds> || std::is_same_v<T, Gbps>)
    return value.value >= var.least && value.value <= var.most;
  return true;
}

// True if the value must be one of the words that `accepts` lists.
bool isChoice(std::string_view name) {
  return name == "BPS_DEVICE" || name == "BPS_STRATEGY" || name == "BPS_NCCL_LOCAL" || name == "BPS_DEBUG" ||
         name == "BPS_CPU_TARGET" || name == "BPS_DUMP_SIGNAL" || name == "BPS_LOG_FORMAT";
}

// Returns the word of `accepts` that equals the text, ignoring case.
std::optional<std::string_view> acceptedWord(const EnvVar& var, std::string_view text) {
  std::string_view rest = var.accepts;
  while (true) {
    const size_t end = rest.find_first_of(", ");
    const std::string_view word = rest.substr(0, end);
    if (!word.empty() && word != "or" && sameWord(word, text)) return word;
    if (end == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(end + 1);
  }
}

Result<long long> ncclNumber(std::string_view text) {
  const std::string terminated(text);
  char* end = nullptr;
  errno = 0;
  const long long value = std::strtoll(terminated.c_str(), &end, 0);
  if (end == terminated.c_str()) return notANumber();
  if (errno != 0 || value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max())
    return Status(Code::kInvalidArgument, "out of range");
  return value;
}

// Returns the smallest number of edits that turn a into b. An edit replaces, deletes or inserts a
// letter, or swaps two adjacent letters.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1), now(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    now[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      now[j] = std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) now[j] = std::min(now[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, now);
  }
  return last[b.size()];
}

}  // namespace

Result<double> parseNumber(std::string_view text) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !std::isfinite(value)) return notANumber();
  return value;
}

Result<uint64_t> parseBytes(std::string_view text) {
  double scale = 1;
  if (!text.empty()) {
    const char suffix = text.back();
    if (suffix == 'K' || suffix == 'k') scale = kK;
    if (suffix == 'M' || suffix == 'm') scale = kM;
    if (suffix == 'G' || suffix == 'g') scale = kG;
    if (scale > 1) text.remove_suffix(1);
  }
  const double value = BPS_TRY(parseNumber(text)) * scale;
  if (value < 0 || value > 0x1p62) return Status(Code::kInvalidArgument, "not a size");
  return static_cast<uint64_t>(value);
}

Status parseBpsValue(const EnvVar& var, std::string_view text, Env& env) {
  return std::visit(
      [&](auto field) -> Status {
        std::remove_reference_t<decltype(env.*field)> value{};
        BPS_TRY(parseInto(value, text));
        if (!inRange(var, value)) return {Code::kInvalidArgument, "out of range"};
        if constexpr (std::is_same_v<decltype(value), std::string>) {
          if (isChoice(var.name) && !text.empty()) {
            const auto word = acceptedWord(var, text);
            if (!word) return {Code::kInvalidArgument, "not one of the accepted words"};
            value = *word;
          }
          if (var.name == "BPS_METRICS" && !text.empty()) BPS_TRY(parseAddress(text));
        }
        env.*field = std::move(value);
        return {};
      },
      var.field);
}

Status parseNcclValue(const EnvVar& var, std::string_view text, Env& env) {
  if (text.empty()) return {};  // NCCL treats an empty value as unset
  // NCCL's level ABORT logs more than INFO; bps has no such level.
  if (var.name == "BPS_DEBUG" && sameWord(text, "ABORT")) return parseBpsValue(var, "INFO", env);
  if (bool Env::*const* field = std::get_if<bool Env::*>(&var.field)) {
    env.** field = BPS_TRY(ncclNumber(text)) != 0;
    return {};
  }
  if (int Env::*const* field = std::get_if<int Env::*>(&var.field)) {
    const auto value = static_cast<int>(BPS_TRY(ncclNumber(text)));
    if (!inRange(var, value)) return {Code::kInvalidArgument, "out of range"};
    env.** field = value;
    return {};
  }
  BPS_TRY(parseBpsValue(var, text, env));
  // If the plugin is not found, NCCL uses its built-in transports, and bps uses its own plugin.
  if (var.name == "BPS_NET_PLUGIN") env.netPlugin += ",bps";
  return {};
}

std::string closestName(std::string_view name, const std::vector<std::string_view>& candidates) {
  size_t least = std::max<size_t>(2, name.size() / 4) + 1;
  std::string_view closest;
  for (const std::string_view candidate : candidates) {
    const size_t distance = editDistance(name, candidate);
    if (distance < least) closest = candidate;
    least = std::min(least, distance);
  }
  return std::string(closest);
}

}  // namespace bps
