#include "net_plugin/tcp/tcp_interface.h"

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string_view>

#include "net_plugin/tcp/wire.h"
#include "src/base/format.h"
#include "src/base/io/interfaces.h"

namespace bps::plugin::tcp {
namespace {

constexpr int kUnknownSpeedMbps = 10000;
// The bandwidth that one socket reaches with one CPU core.
constexpr int kSocketMbps = 25000;
constexpr size_t kMaxSocketsBySpeed = 4;
// The PCI vendor ids of the NICs of two clouds. Both clouds limit the bandwidth of a single flow
// (docs/transport.md).
constexpr std::string_view kAmazon = "0x1d0f", kGoogle = "0x1ae0";
constexpr size_t kSocketsOnAmazon = 8, kSocketsOnGoogle = 4;

bool isHex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

// Returns whether `name` is the name of a PCI function, such as "0000:00:03.0".
bool isPciFunction(std::string_view name) {
  return name.size() == 12 && name[4] == ':' && name[7] == ':' && name[10] == '.' && isHex(name.substr(0, 4)) &&
         isHex(name.substr(5, 2)) && isHex(name.substr(8, 2)) && isHex(name.substr(11));
}

std::string firstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::string resolvePath(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  return real ? real.get() : "";
}

std::string pciFunctionPath(const std::string& path) {
  size_t found = 0;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin), path.size());
    if (isPciFunction(std::string_view(path).substr(begin, end - begin))) found = end;
    begin = end + 1;
  }
  return path.substr(0, found);
}

int parseSpeedMbps(const std::string& text) {
  int speed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), speed);
  return error == std::errc{} && speed > 0 ? speed : kUnknownSpeedMbps;
}

size_t chooseSocketCount(const SocketCountRequest& request, int speedMbps, std::string_view vendor) {
  if (request.threads > 0 || request.perThread > 0) {
    const auto asked =
        static_cast<size_t>(std::max(request.threads, 1)) * static_cast<size_t>(std::max(request.perThread, 1));
    return std::min(asked, kMaxSockets);
  }
  if (vendor == kAmazon) return kSocketsOnAmazon;
  if (vendor == kGoogle) return kSocketsOnGoogle;
  const int needed = (speedMbps + kSocketMbps - 1) / kSocketMbps;
  return std::clamp<size_t>(static_cast<size_t>(needed), 1, kMaxSocketsBySpeed);
}

Result<std::vector<TcpInterface>> findInterfaces(const std::string& filter, const SocketCountRequest& request) {
  std::vector<TcpInterface> devices;
  for (const Interface& interface : BPS_TRY(selectInterfaces(filter))) {
    const std::string sysfs = "/sys/class/net/" + interface.name;
    TcpInterface device{.name = interface.name,
                        .pciPath = pciFunctionPath(resolvePath(sysfs + "/device")),
                        .speedMbps = parseSpeedMbps(firstLine(sysfs + "/speed")),
                        .address = interface.address};
    device.sockets = chooseSocketCount(request, device.speedMbps, firstLine(sysfs + "/device/vendor"));
    device.address.setPort(0);
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace bps::plugin::tcp
