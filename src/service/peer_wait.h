// PeerWait: what a call still needs from one peer. Messages about calls that make no progress list PeerWaits.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace bps {

struct PeerWait {
  enum class Data : uint8_t { kContribution, kSum };

  std::string peer;  // its name
  Data data = Data::kContribution;
  uint64_t missing = 0;  // chunks whose data has not arrived from the peer; 0: the peer is done
  uint64_t unsent = 0;   // chunks or sums that this process has for the peer and that the transport has not accepted
};

// Names the peers that are done, or those that are not, for one kind of data. A peer is done if nothing is missing from
// it. Names each peer once, and at most a few peers.
std::string namePeers(const std::vector<PeerWait>& waits, PeerWait::Data data, bool done);

// Describes for which peers a call waits and which peers are done, in sentences. Empty if no peer's data is missing.
std::string describeWaits(const std::vector<PeerWait>& waits);

}  // namespace bps
