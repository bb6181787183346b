// Facts: what a rank knows about itself and its machine without any other rank. Ranks send them to rank 0 as JSON.
#pragma once
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/env.h"
#include "src/base/status.h"

namespace bps::doctor {

struct NicFacts {
  std::string name;
  std::string address;  // without a port
  int port = 0;         // where this rank's echo service listens
  int mbps = 0;         // 0: the kernel knows no rate
  int mtu = 0;          // bytes; 0: unknown
  bool chosen = false;  // BPS_SOCKET_IFNAME, or its default, selects this interface

  bool isLinkLocal() const { return address.rfind("fe80", 0) == 0; }
  bool isLoopback() const { return address.rfind("127.", 0) == 0 || address == "::1"; }
};

struct Facts {
  int rank = 0;
  std::string host, hostId, version;
  uint64_t nofile = 0, nofileHard = 0;    // limits of descriptors
  uint64_t memlock = 0;                   // bytes that may be locked; UINT64_MAX: no limit
  bool mayLock = false;                   // CAP_IPC_LOCK: the limit does not count
  std::vector<std::string> rdma;          // RDMA devices that bps may use
  int rdmaMbps = 0;                       // rate of the fastest of their ports; 0: unknown
  uint64_t shmBytes = 0, shmFree = 0;     // of /dev/shm
  std::vector<NicFacts> nics;             // the chosen ones come first, in the order of bps
  std::string nicError;                   // why BPS_SOCKET_IFNAME selects no interface
  std::vector<std::string> listenErrors;  // why chosen interfaces have no port for data connections
  std::vector<std::string> warnings;      // about the environment variables
  double bandwidth = 0;                   // BPS_BANDWIDTH in Gbit/s; 0: unset

  std::string name() const { return "rank " + std::to_string(rank) + " (host " + host + ")"; }
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(NicFacts, name, address, port, mbps, mtu, chosen)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Facts, rank, host, hostId, version, nofile, nofileHard, memlock, mayLock, rdma,
                                   rdmaMbps, shmBytes, shmFree, nics, nicError, listenErrors, warnings, bandwidth)

// The version of the library that this program has loaded.
std::string ownVersion();
std::string versionText(uint32_t code);
// Returns the seconds since 1970 of this machine's clock.
double clockSeconds();
// Reads limits, interfaces and devices of this machine. `warnings` come from the parser of the environment.
Facts collectFacts(int rank, const Env& env, std::vector<std::string> warnings);

}  // namespace bps::doctor
