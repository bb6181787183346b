#include "tools/bps_doctor/facts.h"

#include <sys/resource.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "bps/bps.h"
#include "src/base/format.h"
#include "src/base/io/interfaces.h"
#include "src/control/host_id.h"

namespace bps::doctor {
namespace {

constexpr unsigned kCapIpcLock = 14;
constexpr size_t kMostNics = 16;  // virtual interfaces of containers beyond this number are ignored

uint64_t limitOf(__rlimit_resource resource, bool hard) {
  rlimit limit{};
  if (::getrlimit(resource, &limit) != 0) return 0;
  const rlim_t value = hard ? limit.rlim_max : limit.rlim_cur;
  return value == RLIM_INFINITY ? UINT64_MAX : value;
}

bool hasCapability(unsigned capability) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word)
    if (word == "CapEff:" && status >> word) return (std::stoull(word, nullptr, 16) >> capability & 1) != 0;
  return false;
}

// Reads the first number of a file of the kernel. Returns 0 if there is none, or if it is negative.
int numberIn(const std::string& path) {
  std::ifstream file(path);
  int value = 0;
  return file >> value ? std::max(value, 0) : 0;
}

void findRdmaDevices(const Env& env, Facts& facts) {
  if (env.ibDisable) return;
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", none)) {
    facts.rdma.push_back(device.path().filename());
    for (const auto& port : std::filesystem::directory_iterator(device.path() / "ports", none))
      facts.rdmaMbps = std::max(facts.rdmaMbps, 1000 * numberIn(port.path() / "rate"));  // "100 Gb/sec (4X EDR)"
  }
  std::sort(facts.rdma.begin(), facts.rdma.end());
}

// An interface that BPS_SOCKET_IFNAME does not select counts only if other machines could reach it.
bool isAlternative(const Interface& each) {
  const auto begins = [&](const char* text) { return each.name.rfind(text, 0) == 0; };
  const bool linkLocal = each.address.host().rfind("fe80", 0) == 0;
  return !each.address.isLoopback() && !linkLocal && !begins("docker") && !begins("virbr") && !begins("veth");
}

void findNics(const Env& env, Facts& facts) {
  std::vector<NicFacts>& nics = facts.nics;
  const auto known = [&](const std::string& name) {
    return std::any_of(nics.begin(), nics.end(), [&](const NicFacts& nic) { return nic.name == name; });
  };
  const auto add = [&](const Interface& each, bool chosen) {
    if (nics.size() == kMostNics || known(each.name)) return;
    const std::string sysfs = "/sys/class/net/" + each.name;
    nics.push_back({each.name, each.address.host(), 0, numberIn(sysfs + "/speed"), numberIn(sysfs + "/mtu"), chosen});
  };
  Result<std::vector<Interface>> chosen = selectInterfaces(env.socketIfname);
  if (!chosen.ok()) facts.nicError = chosen.error().message();
  else
    for (const Interface& each : std::move(chosen).value()) add(each, true);
  for (const Interface& each : interfaceAddresses())
    if (isAlternative(each)) add(each, false);
}

}  // namespace

std::string versionText(uint32_t code) { return fmt::format("{}.{}.{}", code / 10000, code / 100 % 100, code % 100); }

std::string ownVersion() {
  int code = 0;
  return bpsGetVersion(&code) == bpsSuccess ? versionText(static_cast<uint32_t>(code)) : "unknown";
}

double clockSeconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

Facts collectFacts(int rank, const Env& env, std::vector<std::string> warnings) {
  Facts facts;
  facts.rank = rank;
  facts.host = localHostName();
  facts.hostId = localHostId(env);
  facts.version = ownVersion();
  facts.nofile = limitOf(RLIMIT_NOFILE, false);
  facts.nofileHard = limitOf(RLIMIT_NOFILE, true);
  facts.memlock = limitOf(RLIMIT_MEMLOCK, false);
  facts.mayLock = hasCapability(kCapIpcLock);
  findRdmaDevices(env, facts);
  struct statvfs shm {};
  if (::statvfs("/dev/shm", &shm) == 0) {
    facts.shmBytes = shm.f_blocks * shm.f_frsize;
    facts.shmFree = shm.f_bavail * shm.f_frsize;
  }
  findNics(env, facts);
  facts.warnings = std::move(warnings);
  facts.bandwidth = env.bandwidth.value;
  return facts;
}

}  // namespace bps::doctor
