// DataConnections: the two data connections between two `bps-topo probe` processes, one per direction.
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

// Connects both directions. Both sides call it, each with its own listener and a connector to the other side's handle.
// Fails after the peer timeout of `line`, which must outlive the result.
Result<DataConnections> connectData(ProbeConnection& line, net::Listener& listener, net::Connector& connector);

Result<net::Handle> handleOf(const Blob& blob);
Blob blobOf(const net::Handle& handle);

// Makes the transport use its devices even between processes of one machine, so that the probe measures the NICs and
// not memory. Call it before other threads start.
void disableSharedMemory();

// A rate as text, in Mbit/s or Gbit/s.
std::string megabits(double bytesPerSecond);

}  // namespace bps
