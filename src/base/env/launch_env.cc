#include "src/base/env/launch_env.h"

#include <algorithm>
#include <array>

#include "src/base/format.h"

namespace bps {
namespace {

struct LauncherVariables {
  const char* rank;
  const char* ranks;
};
constexpr std::array<LauncherVariables, 5> kLaunchers = {{{"BPS_RANK", "BPS_NRANKS"},
                                                          {"RANK", "WORLD_SIZE"},
                                                          {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                          {"PMI_RANK", "PMI_SIZE"},
                                                          {"SLURM_PROCID", "SLURM_NTASKS"}}};

bool given(Lookup lookup, const char* name) { return lookup(name) != nullptr && *lookup(name) != 0; }

Result<int> wholeNumber(Lookup lookup, const char* name, int least, int most) {
  auto number = parseNumber(lookup(name));
  if (number.ok()) {
    const double value = std::move(number).value();
    if (value >= least && value <= most && value == static_cast<int>(value)) return static_cast<int>(value);
  }
  return failure(Code::kInvalidUsage, "{}={}: not a whole number from {} to {}", name, lookup(name), least, most);
}

Status chooseRoot(Lookup lookup, LaunchEnv& launch) {
  if (launch.processes == 1 || given(lookup, "BPS_ROOT")) return {};
  if (!given(lookup, "MASTER_ADDR") || !given(lookup, "MASTER_PORT")) {
    return failure(Code::kInvalidUsage,
                   "{}: {} processes need a rendezvous address: set BPS_ROOT=HOST:PORT, an address of the machine of "
                   "process 0 (or "
                   "set MASTER_ADDR and MASTER_PORT, as torchrun does)",
                   launch.source, launch.processes);
  }
  const int port = BPS_TRY(wholeNumber(lookup, "MASTER_PORT", 1, 65534));
  const std::string host = lookup("MASTER_ADDR");
  const bool bare6 = host.find(':') != std::string::npos && host[0] != '[';
  launch.root = fmt::format("{}{}{}:{}", bare6 ? "[" : "", host, bare6 ? "]" : "", port + 1);
  launch.notes.push_back(fmt::format("BPS_ROOT={}, from MASTER_ADDR and MASTER_PORT + 1", launch.root));
  return {};
}

}  // namespace

Result<LaunchEnv> readLaunchEnv(Lookup lookup) {
  LaunchEnv launch;
  for (const LauncherVariables& each : kLaunchers) {
    if (!given(lookup, each.rank) && !given(lookup, each.ranks)) continue;
    if (!given(lookup, each.rank) || !given(lookup, each.ranks)) {
      if (each.rank != kLaunchers[0].rank) continue;  // a general name such as RANK may have another meaning
      return failure(Code::kInvalidUsage, "{} and {} must both be set", each.rank, each.ranks);
    }
    launch.processes = BPS_TRY(wholeNumber(lookup, each.ranks, 1, 1 << 20));
    launch.process = BPS_TRY(wholeNumber(lookup, each.rank, 0, launch.processes - 1));
    launch.source = fmt::format("{}={} {}={}", each.rank, launch.process, each.ranks, launch.processes);
    break;
  }
  BPS_TRY(chooseRoot(lookup, launch));
  return launch;
}

bool isLaunchVariable(std::string_view name) {
  return std::any_of(kLaunchers.begin(), kLaunchers.end(),
                     [&](const LauncherVariables& each) { return name == each.rank || name == each.ranks; });
}

}  // namespace bps
