#include "src/control/host_id.h"

#include <unistd.h>

#include <array>
#include <fstream>

namespace bps {

std::string localHostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "unknown-host";
  return name.data();
}

std::string localHostId(const Env& env) {
  if (!env.hostId.empty()) return env.hostId;
  std::string bootId;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> bootId;
  return localHostName() + " " + bootId;
}

}  // namespace bps
