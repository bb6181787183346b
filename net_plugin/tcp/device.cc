#include "net_plugin/tcp/device.h"

#include <charconv>
#include <climits>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string_view>

#include "src/base/format.h"

namespace bps::plugin::tcp {
namespace {

constexpr int kUnknownSpeedMbps = 10000;

bool isHex(std::string_view text) { return text.find_first_not_of("0123456789abcdef") == std::string_view::npos; }

// "0000:00:03.0"
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

std::string resolvedPath(const std::string& path) {
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

Result<std::vector<Device>> findDevices(const std::string& filter) {
  std::vector<Device> devices;
  for (const Interface& interface : BPS_TRY(selectInterfaces(filter))) {
    const std::string sysfs = "/sys/class/net/" + interface.name;
    Device device{interface.name, pciFunctionPath(resolvedPath(sysfs + "/device")),
                  parseSpeedMbps(firstLine(sysfs + "/speed")), interface.address};
    device.address.setPort(0);
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace bps::plugin::tcp
