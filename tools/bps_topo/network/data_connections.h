// DataConnections: the two data connections between two `bps-topo probe` processes, one in each
// direction.
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

// Connects both directions. Each process calls this function with its listener and with a connector
// to the handle of the other process. The function fails after the peer timeout of `line`. `line`
// must outlive the result.
Result<DataConnections> connectData(ProbeConnection& line, net::Listener& listener, net::Connector& connector);

Result<net::Handle> handleOf(const Blob& blob);
Blob blobOf(const net::Handle& handle);

// Makes the transport use its devices even between processes of one machine. The probe then
// measures the NICs and not the memory. Call this function before other threads start.
void disableSharedMemory();

// Returns a rate as text, in Mbit/s or Gbit/s.
std::string megabits(double bytesPerSecond);

}  // namespace bps
