// bps-topo probe --listen: the other end for those who measure their NICs. One of them at a time; it serves until a
// signal ends it.
#pragma once
#include <string>

#include "src/base/env.h"
#include "src/base/socket.h"

namespace bps {

constexpr uint16_t kProbePort = 7701;

// `where`: "PORT" (of the first usable interface), "ADDRESS" or "ADDRESS:PORT". Prints where it listens, and a line for
// each NIC that was measured. Returns only with a failure.
Status listenForProbes(const std::string& where, const Env& env);

}  // namespace bps
