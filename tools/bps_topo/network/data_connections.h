// The two data connections between two bps-topo probe, one for each way.
#pragma once
#include <memory>

#include "src/net/net.h"
#include "src/wire/control_messages.h"
#include "tools/bps_topo/network/bursts.h"
#include "tools/bps_topo/network/probe_connection.h"

namespace bps {

struct DataConnections {
  std::unique_ptr<BurstSender> send;
  std::unique_ptr<BurstReceiver> receive;
};

// Both sides call it, each with its listener and the other one's handle. Ends when both connections are up, or at the
// line's patience; `line` outlives what it returns.
Result<DataConnections> connectData(ProbeConnection& line, net::Listener& listener, net::Connector& connector);

Result<net::Handle> handleOf(const Blob& blob);
Blob blobOf(const net::Handle& handle);

// From now on the transport moves bytes between processes of one machine by its devices too: it is not the memory that
// is to be measured. Before other threads start.
void disableSharedMemory();

// How a message says a rate, in the unit of NICs.
std::string megabits(double bytesPerSecond);

}  // namespace bps
