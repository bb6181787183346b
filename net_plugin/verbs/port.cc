#include "net_plugin/verbs/port.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

#include "net_plugin/tcp/tcp_interface.h"
#include "src/base/format.h"

namespace bps::plugin::verbs {
namespace {

constexpr int kUnknownRateMbps = 10000;
// readGids() reads at most kMaxGids entries and stops after kMaxEmptyGids empty entries in a row.
// GID tables have 16 to 1024 entries, but usually only the first few entries are used, with small
// gaps.
constexpr int kMaxGids = 256, kMaxEmptyGids = 32;

std::string firstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::vector<std::string> entriesOf(const std::string& path) {
  std::vector<std::string> names;
  std::error_code error;  // a missing directory has no entries
  for (const auto& entry : std::filesystem::directory_iterator(path, error))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

// Converts text such as "64dd:b3ff:..." to bytes. Returns no bytes if the text does not consist of
// groups of four hexadecimal digits.
std::vector<uint8_t> parseGroups(std::string_view text) {
  std::vector<uint8_t> bytes;
  if (text.size() % 5 != 4) return {};
  for (size_t at = 0; at < text.size(); at += 5) {
    if (at + 4 < text.size() && text[at + 4] != ':') return {};
    for (size_t part = at; part < at + 4; part += 2) {
      uint8_t byte = 0;
      const auto [end, error] = std::from_chars(text.data() + part, text.data() + part + 2, byte, 16);
      if (error != std::errc{} || end != text.data() + part + 2) return {};
      bytes.push_back(byte);
    }
  }
  return bytes;
}

std::vector<Gid> readGids(const std::string& port) {
  std::vector<Gid> gids;
  for (int index = 0, empty = 0; index < kMaxGids && empty < kMaxEmptyGids; ++index, ++empty) {
    Gid gid;
    gid.index = index;
    if (!parseGid(firstLine(fmt::format("{}/gids/{}", port, index)), gid.bytes)) continue;
    gid.routable = firstLine(fmt::format("{}/gid_attrs/types/{}", port, index)) == "RoCE v2";
    gid.interface = firstLine(fmt::format("{}/gid_attrs/ndevs/{}", port, index));
    gids.push_back(std::move(gid));
    empty = 0;
  }
  return gids;
}

}  // namespace

std::string parseState(const std::string& text) {
  const size_t colon = text.find(": ");
  return colon == std::string::npos ? text : text.substr(colon + 2);
}

int parseRateMbps(const std::string& text) {
  double rate = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rate);
  if (error != std::errc{} || std::string_view(end).substr(0, 7) != " Gb/sec" || !(rate > 0 && rate < 1e6))
    return kUnknownRateMbps;
  return static_cast<int>(std::lround(rate * 1000));
}

bool parseGid(const std::string& text, GidBytes& gid) {
  const std::vector<uint8_t> bytes = parseGroups(text);
  if (bytes.size() != gid.size()) return false;
  std::copy(bytes.begin(), bytes.end(), gid.begin());
  return std::any_of(gid.begin(), gid.end(), [](uint8_t byte) { return byte != 0; });
}

uint64_t parseGuid(const std::string& text) {
  const std::vector<uint8_t> bytes = parseGroups(text);
  uint64_t guid = 0;
  if (bytes.size() != sizeof guid) return 0;
  for (const uint8_t byte : bytes) guid = guid << 8 | byte;
  return guid;
}

bool isIpv4(const GidBytes& gid) {
  static constexpr std::array<uint8_t, 12> kPrefix{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  return std::equal(kPrefix.begin(), kPrefix.end(), gid.begin());
}

std::string gidText(const GidBytes& gid) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(AF_INET6, gid.data(), text.data(), text.size());
  return text.data();
}

std::vector<Port> readPorts(const std::string& root) {
  std::vector<Port> ports;
  for (const std::string& device : entriesOf(root)) {
    const std::string path = fmt::format("{}/{}", root, device);
    for (const std::string& number : entriesOf(path + "/ports")) {
      const std::string at = fmt::format("{}/ports/{}", path, number);
      Port port;
      port.device = device;
      std::from_chars(number.data(), number.data() + number.size(), port.number);
      if (firstLine(at + "/link_layer") == "Ethernet") port.link = LinkLayer::kEthernet;
      port.state = parseState(firstLine(at + "/state"));
      port.pciPath = tcp::pciFunctionPath(tcp::resolvePath(path + "/device"));
      port.speedMbps = parseRateMbps(firstLine(at + "/rate"));
      port.guid = parseGuid(firstLine(path + "/node_guid"));
      if (port.state == "ACTIVE") port.gids = readGids(at);
      ports.push_back(std::move(port));
    }
  }
  return ports;
}

}  // namespace bps::plugin::verbs
