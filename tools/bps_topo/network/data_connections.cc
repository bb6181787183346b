#include "tools/bps_topo/network/data_connections.h"

#include <algorithm>
#include <cstdlib>
#include <thread>

#include "src/base/format.h"
#include "topo/rates.h"

namespace bps {

Result<DataConnections> connectData(ProbeConnection& line, net::Listener& listener, net::Connector& connector) {
  const Deadline deadline = line.peerTimeout();
  std::unique_ptr<net::Comm> to, from;
  while (to == nullptr || from == nullptr) {
    if (to == nullptr) to = BPS_TRY(connector.connect());
    if (from == nullptr) from = BPS_TRY(listener.accept());
    BPS_TRY(line.checkPeer());
    if (deadline.passed())
      return failure(Code::kRemote, "no data connection {} {} before the timeout", to == nullptr ? "to" : "from",
                     line.name());
    // Plugins offer no descriptor to wait on before a connection is established.
    if (to == nullptr || from == nullptr) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  const BurstBase::AbortCheck look = [&line] { return line.checkPeer(); };
  return DataConnections{BPS_TRY(BurstSender::create(std::move(to), look)),
                         BPS_TRY(BurstReceiver::create(std::move(from), look))};
}

Result<net::Handle> handleOf(const Blob& blob) {
  net::Handle handle{};
  if (blob.size() != handle.size())
    return failure(Code::kRemote, "received a handle of {} bytes, expected {}", blob.size(), handle.size());
  std::copy(blob.begin(), blob.end(), handle.begin());
  return handle;
}

Blob blobOf(const net::Handle& handle) { return {handle.begin(), handle.end()}; }

void disableSharedMemory() { ::setenv("NCCL_SHM_DISABLE", "1", 1); }

std::string megabits(double bytesPerSecond) {
  const double mbps = bytesPerSecond / kBytesPerMbit;
  return mbps < 1000 ? fmt::format("{:.1f} Mbit/s", mbps) : fmt::format("{:.2f} Gbit/s", mbps / 1000);
}

}  // namespace bps
