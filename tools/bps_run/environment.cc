#include "tools/bps_run/environment.h"

#include <arpa/inet.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <random>
#include <string_view>

#include "src/base/format.h"
#include "src/base/io/socket.h"

namespace bps {
namespace {

bool isFile(const std::string& path) {
  struct stat info {};
  return ::stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (true) {
    const size_t end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// Picks a port for rank 0. The port is below the range that the kernel uses for outgoing
// connections, so that no other process takes the port by accident before rank 0 listens.
Result<std::string> freeRoot(const PortRange& ports) {
  std::random_device random;
  sockaddr_in loopback{};
  loopback.sin_family = AF_INET;
  loopback.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (ports.first != 0) {
    const UniqueFd listener = BPS_TRY(listenOn({reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback}, ports));
    return BPS_TRY(localAddress(listener.get())).text();
  }
  Status last;
  for (int attempt = 0; attempt < 100; ++attempt) {
    loopback.sin_port = htons(static_cast<uint16_t>(10000 + random() % 20000));
    const Address address(reinterpret_cast<const sockaddr*>(&loopback), sizeof loopback);
    auto listener = listenOn(address);
    if (listener.ok()) return address.text();
    last = std::move(listener).status();
  }
  return std::move(last).within("no free port for BPS_ROOT");
}

// Picks a port of rank 0's machine. bps-run cannot ask another machine whether a port is free, so it takes a random one
// below the range for outgoing connections. If it is in use, rank 0 says so.
Result<std::string> remoteRoot(const RunOptions& options, const PortRange& ports) {
  const std::string address = BPS_TRY(hostAddress(options.hosts.front().name, allOnLoopback(options.hosts)));
  std::random_device random;
  const unsigned port = ports.first != 0 ? ports.first : 10000 + random() % 20000;
  return address + ":" + std::to_string(port);
}

bool allOnLoopback(const std::string& servers) {
  if (servers.empty()) return true;
  for (const std::string& server : split(servers, ','))
    if (!isLoopback(server.substr(0, server.rfind(':')))) return false;
  return true;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ",") + part;
  return text;
}

}  // namespace

std::vector<std::string> environmentWith(const EnvChanges& changes) {
  std::vector<std::string> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (changes.count(std::string(text.substr(0, text.find('=')))) == 0) result.emplace_back(text);
  }
  for (const auto& [name, value] : changes)
    if (value) result.push_back(name + "=" + *value);
  return result;
}

std::string environmentValue(const char* name) {
  const char* value = ::getenv(name);
  return value != nullptr ? value : "";
}

Result<EnvChanges> commonEnv(const RunOptions& options, const std::string& keyPath,
                             const std::vector<std::string>& servers) {
  EnvChanges changes;
  std::string named = environmentValue("BPS_SERVERS");
  if (options.servers || !options.serverHosts.empty()) {
    named = joined(servers);
    changes["BPS_SERVERS"] = named.empty() ? std::nullopt : std::optional(named);
  }
  if (!keyPath.empty()) changes["BPS_KEY_FILE"] = keyPath;
  const PortRange ports = BPS_TRY(parsePortRange(environmentValue("BPS_PORT_RANGE")));
  changes["BPS_NRANKS"] = std::to_string(options.ranks());
  if (!options.hosts.empty()) {
    if (environmentValue("BPS_ROOT").empty()) changes["BPS_ROOT"] = BPS_TRY(remoteRoot(options, ports));
    return changes;
  }
  changes["BPS_ROOT"] = BPS_TRY(freeRoot(ports));
  const bool chosen = !environmentValue("BPS_SOCKET_IFNAME").empty() || !environmentValue("NCCL_SOCKET_IFNAME").empty();
  if (!chosen && allOnLoopback(named)) changes["BPS_SOCKET_IFNAME"] = "lo";
  return changes;
}

bool isVariableName(const std::string& name) {
  const auto letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name.front())) == 0 &&
         std::all_of(name.begin(), name.end(), letter);
}

std::map<std::string, std::string> remoteEnvironment(const EnvChanges& changes,
                                                     const std::vector<std::string>& exported) {
  std::map<std::string, std::string> result;
  for (const std::string& entry : environmentWith(changes)) {
    const size_t end = entry.find('=');
    const std::string name = entry.substr(0, end);
    const bool passed = name.rfind("BPS_", 0) == 0 || name.rfind("NCCL_", 0) == 0 ||
                        std::find(exported.begin(), exported.end(), name) != exported.end();
    if (passed && isVariableName(name)) result[name] = entry.substr(end + 1);
  }
  return result;
}

EnvChanges rankEnv(const RunOptions& options, size_t rank) {
  if (!options.hosts.empty()) return {{"BPS_RANK", std::to_string(rank)}};
  return {{"BPS_RANK", std::to_string(rank)},
          {"BPS_HOSTID", fmt::format("bps-run-{}-{}", ::getpid(), rank / options.ranksPerMachine)}};
}

Program findProgram(const std::string& name) {
  constexpr int kCannotRun = 126, kNotFound = 127;
  std::vector<std::string> candidates{name};
  if (name.find('/') == std::string::npos) {
    candidates.clear();
    for (const std::string& directory : split(environmentValue("PATH"), ':'))
      candidates.push_back((directory.empty() ? "." : directory) + "/" + name);
  }
  Program found{"", kNotFound};
  for (const std::string& path : candidates) {
    if (!isFile(path)) continue;
    if (::access(path.c_str(), X_OK) == 0) return {path, 0};
    found.status = kCannotRun;
  }
  return found;
}

}  // namespace bps
