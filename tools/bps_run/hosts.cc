#include "tools/bps_run/hosts.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <string_view>
#include <utility>

#include "src/base/format.h"
#include "src/base/io/host_lookup.h"
#include "src/base/io/socket.h"

namespace bps {
namespace {

constexpr size_t kMaxRanks = 4096;
constexpr uint16_t kServerPort = 7700;
constexpr size_t kMaxPort = 65535;

struct Item {
  std::string name;
  std::string_view number;  // the text after the last colon; empty if there is none
};

// Splits HOST[:NUMBER]. An IPv6 address has brackets.
Result<Item> split(std::string_view text, const std::string& form) {
  const size_t bracket = text.rfind(']'), colon = text.rfind(':');
  const bool hasNumber = colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  Item item{std::string(text.substr(0, hasNumber ? colon : text.size())), {}};
  if (hasNumber) item.number = text.substr(colon + 1);
  // ssh would take a name that begins with "-" as an option.
  const bool bad = item.name.empty() || item.name.front() == '-' || (hasNumber && item.number.empty()) ||
                   item.name.find_first_of(" \t\n'\"\\$`;&|<>()") != std::string::npos;
  if (bad) return failure(Code::kInvalidArgument, "'{}' is not of the form {}", text, form);
  return item;
}

Result<size_t> parseNumber(std::string_view text, size_t least, size_t most, const std::string& whole,
                           const std::string& what) {
  size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    return failure(Code::kInvalidArgument, "'{}': {} is not a {} from {} to {}", whole, text, what, least, most);
  return value;
}

std::string withoutUser(const std::string& name) {
  std::string host = name.substr(name.rfind('@') + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  return host;
}

}  // namespace

Result<std::vector<WorkerHost>> parseWorkerHosts(const std::vector<std::string>& items) {
  std::vector<WorkerHost> hosts;
  size_t total = 0;
  for (const std::string& text : items) {
    const Item item = BPS_TRY(split(text, "HOST[:RANKS]"));
    const size_t ranks =
        item.number.empty() ? 1 : BPS_TRY(parseNumber(item.number, 1, kMaxRanks, text, "number of ranks"));
    total += ranks;
    if (total > kMaxRanks) return failure(Code::kInvalidArgument, "more than {} ranks", kMaxRanks);
    const auto same =
        std::find_if(hosts.begin(), hosts.end(), [&](const WorkerHost& host) { return host.name == item.name; });
    if (same == hosts.end()) hosts.push_back({item.name, ranks});
    else same->ranks += ranks;
  }
  return hosts;
}

Result<std::vector<ServerHost>> parseServerHosts(const std::vector<std::string>& items) {
  std::vector<ServerHost> hosts;
  for (const std::string& text : items) {
    const Item item = BPS_TRY(split(text, "HOST[:PORT]"));
    const size_t port =
        item.number.empty() ? kServerPort : BPS_TRY(parseNumber(item.number, 0, kMaxPort, text, "port"));
    hosts.push_back({item.name, static_cast<uint16_t>(port)});
  }
  return hosts;
}

bool isLoopback(const std::string& name) {
  const std::string host = withoutUser(name);
  return host == "localhost" || host == "::1" || host.rfind("127.", 0) == 0;
}

bool allOnLoopback(const std::vector<WorkerHost>& hosts) {
  return std::all_of(hosts.begin(), hosts.end(), [](const WorkerHost& host) { return isLoopback(host.name); });
}

Result<std::string> hostAddress(const std::string& name, bool loopback) {
  const std::string host = withoutUser(name);
  Address address = BPS_TRY(resolve({host, 1}, Deadline::in(std::chrono::seconds(10)))).front();
  std::string text = address.text();
  text = text.substr(0, text.rfind(':'));
  if (!loopback && isLoopback(text))
    return failure(Code::kInvalidArgument,
                   "{} has the address {} here, which other machines cannot reach; use its address in the network",
                   host, text);
  return text;
}

}  // namespace bps
