// Roster: the ranks, machines and servers of one communicator, and the settings of the job.
//
// The hub (in rank 0) creates the roster during initialization and sends it to all members. The roster does not change
// afterwards, except for the names of servers. It has a place for every server of the list, also for absent ones.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "src/base/io/address.h"
#include "src/base/io/wire_io.h"
#include "src/base/status.h"

namespace bps {

struct RankEntry {
  std::string hostId;    // ranks with equal host ids share a machine
  std::string hostName;  // for messages only
  uint32_t pid = 0;
  uint32_t machine = 0;    // index into Roster::machines
  uint32_t localRank = 0;  // index into Machine::ranks
  Address standby{};       // the address where this rank listens if it becomes the hub of a shrunken communicator
};

struct Machine {
  std::vector<uint32_t> ranks;  // in ascending order; the first rank is the leader
  double bytesPerSecond = 0;    // NIC bandwidth in each direction, or 0 if it is unknown
};

struct ServerEntry {
  std::string name;  // host:port as the user gave it; empty for a place that no server has taken yet
  double bytesPerSecond = 0;
  bool present = true;  // false if the job runs without this server; it may join later
  // The fraction of its rate that the server achieves (ServerEvent::rateFactor). An encoded roster does not have it.
  double rateFactor = 1;
};

// The names of the servers that joined after the start. All copies of a roster share them. Any thread may use them.
class JoinedNames {
 public:
  void set(size_t server, std::string name) const;
  std::string get(size_t server) const;  // empty if no server has joined in this place

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_ = create();
  static std::shared_ptr<Shared> create();
};

// The settings that must be equal on all ranks. The settings come from rank 0's environment.
struct JobSettings {
  uint64_t partitionBytes = 0;
  uint64_t exchangeBytes = 0;     // Bytes::kMeasured if bps measures the limit
  uint64_t singleOwnerBytes = 0;  // Bytes::kMeasured if bps measures the limit
  uint32_t timeoutMs = 0;
  uint32_t rails = 0;            // maximum number of rails, or 0 to let the machine plans decide
  bool checksum = false;         // true if every chunk carries a checksum of its payload
  uint32_t serverTimeoutMs = 0;  // BPS_SERVER_TIMEOUT
  // The shape of the fabric (BPS_FABRIC): n and k of a BCube. 0 if all machines reach each other.
  uint32_t fabricN = 0, fabricK = 0;
  // True if the owners keep parameters for asynchronous training, in place of summing calls (service/param_service.h).
  bool parameters = false;
  static constexpr uint32_t kUnbounded = UINT32_MAX;
  uint32_t staleness = kUnbounded;  // BPS_STALENESS; only for parameters
};

struct Roster {
  uint64_t jobId = 0;  // a random number that is not 0
  std::vector<RankEntry> ranks;
  std::vector<Machine> machines;  // ordered by their lowest rank
  std::vector<ServerEntry> servers;
  JobSettings settings;
  JoinedNames joinedNames;

  // The number of endpoints of the data plane. Endpoints 0..n-1 are the machines, endpoints n..n+k-1 are the servers.
  size_t endpoints() const { return machines.size() + servers.size(); }
  bool isServer(size_t endpoint) const { return endpoint >= machines.size(); }
  // The largest possible number of rails. Rail r connects local rank r of every machine with the other machines and
  // with the servers. Later the ranks agree which of these rails they use (src/plan/rails.h).
  size_t rails() const;
  // The number of members of the control plane. Members 0..N-1 are the ranks, and the following members are the
  // servers. memberOf() returns a different rank of a machine for every rail, but the same member for a server on all
  // rails.
  size_t members() const { return ranks.size() + servers.size(); }
  size_t memberOf(size_t endpoint, size_t rail) const;
  size_t endpointOf(size_t member) const;
  // How long a call waits for a member before the heartbeats report the wait. The hub finds a server that a rank cannot
  // reach within BPS_SERVER_TIMEOUT, which consists of this time twice and of the time between two heartbeats.
  std::chrono::milliseconds waitReportTime() const;
  // Names for error texts, such as "rank 3 (host7, pid 1234)", "ranks 8-15 (host2)" or "server cpu1:7700".
  std::string rankName(size_t rank) const;
  size_t presentServers() const;
  std::string endpointName(size_t endpoint) const;
  std::string serverName(size_t server) const;
  std::string memberName(size_t member) const;
};

// Formats ranks in ascending order for error texts, such as "8-15" or "2, 5-6".
std::string rankRanges(const std::vector<uint32_t>& ranks);

Blob encode(const Roster& roster);
// decodeRoster() checks every index and every count.
Result<Roster> decodeRoster(std::span<const uint8_t> bytes);

}  // namespace bps
