#include "src/control/servers/server_list.h"

#include <cerrno>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>
#include <system_error>

#include "src/base/format.h"

namespace bps {
namespace {

// A file may have this size. It has room for some 10'000 servers.
constexpr size_t kMaxFileBytes = size_t{1} << 20;

// Returns the text of the file, or an empty result if the file is too large.
std::optional<std::string> readAll(std::istream& file) {
  std::string text(kMaxFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxFileBytes) return {};
  return text;
}

std::string trimmed(const std::string& text) {
  constexpr const char* kBlank = " \t\r\n";
  const size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

// Splits the text at commas and line ends and returns the entries without comments.
std::vector<std::string> entries(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream items(line.substr(0, line.find('#')));
    for (std::string item; std::getline(items, item, ',');)
      if (!trimmed(item).empty()) found.push_back(trimmed(item));
  }
  return found;
}

}  // namespace

Result<std::vector<std::string>> serverNames(const std::string& servers, std::string_view source) {
  std::string text = servers;
  if (!servers.empty() && servers.front() == '@') {
    std::ifstream file(servers.substr(1));
    if (!file.is_open())
      return failure(Code::kInvalidArgument, "{}={}: cannot read the file: {}", source, servers,
                     std::generic_category().message(errno));
    const std::optional<std::string> all = readAll(file);
    if (!all)
      return failure(Code::kInvalidArgument, "{}={}: the file is larger than {} bytes", source, servers, kMaxFileBytes);
    text = *all;
  }
  std::vector<std::string> names = entries(text);
  std::set<std::string> seen;
  for (const std::string& name : names) {
    Result<HostPort> parsed = parseHostPort(name, kServerPort);
    if (!parsed.ok()) return std::move(parsed).status().within(std::string(source));
    const HostPort where = std::move(parsed).value();
    if (!seen.insert(fmt::format("{}:{}", where.host, where.port)).second)
      return failure(Code::kInvalidArgument, "{}: {} is listed twice", source, name);
  }
  return names;
}

Result<std::vector<ServerTarget>> serverTargets(const std::string& servers) {
  std::vector<ServerTarget> targets;
  for (const std::string& name : BPS_TRY(serverNames(servers)))
    targets.push_back({name, BPS_TRY(parseHostPort(name, kServerPort))});
  return targets;
}

}  // namespace bps
