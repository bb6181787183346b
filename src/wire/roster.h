// Roster: who takes part in one communicator, agreed once during init. The hub (rank 0) makes it and sends it to all.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/io/wire_io.h"
#include "src/base/status.h"

namespace bps {

struct RankEntry {
  std::string hostId;    // ranks with equal ids share a machine
  std::string hostName;  // for people
  uint32_t pid = 0;
  uint32_t machine = 0;    // index into Roster::machines
  uint32_t localRank = 0;  // index into Machine::ranks
};

struct Machine {
  std::vector<uint32_t> ranks;  // ascending; the first is the leader
  double bytesPerSecond = 0;    // NIC rate, each way; 0: not given
};

struct ServerEntry {
  std::string name;  // host:port as the user gave it
  double bytesPerSecond = 0;
};

// What must be alike on all ranks: rank 0's environment decides.
struct JobSettings {
  uint64_t partitionBytes = 0;
  uint64_t exchangeBytes = 0;  // this and the next: Bytes::kMeasured where nobody decides
  uint64_t singleOwnerBytes = 0;
  uint32_t timeoutMs = 0;
  uint32_t rails = 0;     // most per machine; 0: as many as the machines' plans say
  bool checksum = false;  // every chunk carries one of its bytes
};

struct Roster {
  uint64_t jobId = 0;  // non-zero, random, equal on all; never reused
  std::vector<RankEntry> ranks;
  std::vector<Machine> machines;  // ordered by their lowest rank
  std::vector<ServerEntry> servers;
  JobSettings settings;

  // Endpoints of the data plane: machines 0..n-1, then servers n..n+k-1.
  size_t endpoints() const { return machines.size() + servers.size(); }
  bool isServer(size_t endpoint) const { return endpoint >= machines.size(); }
  // Rails that there may be: rail r joins the local ranks r of all machines with each other and with the servers. Which
  // of them are used, the ranks agree on later (src/plan/rails.h).
  size_t rails() const;
  // Members of the control plane: ranks 0..N-1, then servers. An endpoint has one on every rail.
  size_t members() const { return ranks.size() + servers.size(); }
  size_t memberOf(size_t endpoint, size_t rail) const;
  size_t endpointOf(size_t member) const;
  // "rank 3 (host7, pid 1234)", "ranks 8-15 (host2)", "server cpu1:7700".
  std::string rankName(size_t rank) const;
  std::string endpointName(size_t endpoint) const;
  std::string memberName(size_t member) const;
};

// Ascending ranks for people: "8-15", "2, 5-6".
std::string rankRanges(const std::vector<uint32_t>& ranks);

Blob encode(const Roster& roster);
// Checks every index and count; what it accepts is safe to use.
Result<Roster> decodeRoster(std::span<const uint8_t> bytes);

}  // namespace bps
