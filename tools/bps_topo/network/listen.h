// bps-topo probe --listen: serves other machines that measure their NICs. The process serves one
// client at a time until a signal ends the process.
#pragma once
#include <string>

#include "src/base/env.h"
#include "src/base/io/socket.h"

namespace bps {

constexpr uint16_t kProbePort = 7701;

// Serves clients. `where` is "PORT" (on the first usable interface), "ADDRESS" or "ADDRESS:PORT".
// Prints the listening address and a line for each measured NIC. Returns only with a failure.
Status listenForProbes(const std::string& where, const Env& env);

}  // namespace bps
