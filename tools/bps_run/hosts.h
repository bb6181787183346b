// The machines of a run on several machines: the lists of -H and of --servers-on.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "src/base/status.h"

namespace bps {

struct WorkerHost {
  std::string name;  // [USER@]HOST, as ssh takes it
  size_t ranks = 1;
};

struct ServerHost {
  std::string name;  // [USER@]HOST, as ssh takes it
  uint16_t port = 0;
};

// Parses items of the form HOST[:RANKS]. Items with the same name add their ranks, as in mpirun.
Result<std::vector<WorkerHost>> parseWorkerHosts(const std::vector<std::string>& items);
// Parses items of the form HOST[:PORT].
Result<std::vector<ServerHost>> parseServerHosts(const std::vector<std::string>& items);

// Returns the IP address of the host. All machines of the run must reach it, so an address of the loopback interface is
// an error unless `loopback` allows it.
Result<std::string> hostAddress(const std::string& name, bool loopback);
// True if the name is an address of the loopback interface or "localhost".
bool isLoopback(const std::string& name);
bool allOnLoopback(const std::vector<WorkerHost>& hosts);

}  // namespace bps
