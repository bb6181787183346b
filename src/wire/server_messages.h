// The messages between the hub and the ranks about servers that are lost, join or leave while calls are in flight.
// docs/ARCHITECTURE.md describes the protocol ("Servers that come and go").
#pragma once
#include <cstdint>
#include <string>

#include "src/wire/control_messages.h"

namespace bps {

// The hub tells all ranks what happens to a server. All ranks receive these events in the same order.
struct ServerEvent {
  static constexpr MessageType kType = MessageType::kServerEvent;
  enum class Kind : uint8_t {
    kLost = 1,  // the communicator goes on without this server; every rank takes part in a kRecovery
    // A change of the servers. There is one change at a time.
    kJoining = 2,    // the server joins; the ranks reply kHandles
    kHandles = 3,    // the server's handles for the receiver; the ranks connect, and reply kConnected
    kConnected = 4,  // the server and all ranks are connected; the ranks reply kReady
    kLeaving = 5,    // the server leaves; the ranks reply kReady
    kNewRate = 6,    // the server has become slower or faster; the ranks reply kReady
    kAt = 7,         // the change takes effect with this call; the ranks reply kDone
    kEnd = 8,        // all ranks have replied kDone
    kAborted = 9,    // the change does not take place
    kRankLost = 10,  // asynchronous training goes on without this rank
  };
  Kind kind = Kind::kLost;
  uint32_t server = 0;        // index into Roster::servers; kRankLost: the rank
  uint32_t change = 0;        // number of the change; 0 for kLost
  uint64_t call = 0;          // kAt: the first call with the changed servers
  double bytesPerSecond = 0;  // kJoining: the rate of the server, or 0 if it is unknown
  double rateFactor = 1;      // kNewRate: the new rate as a fraction of bytesPerSecond of kJoining or of the roster
  Blob handles{};             // kHandles: see net::Mesh::handles(); empty if the receiver drives no rail
  std::string text{};         // kLost, kRankLost, kAborted: the reason; kJoining: the name of the server
};
// A rank's reply to a ServerEvent that belongs to a change.
struct ServerReply {
  static constexpr MessageType kType = MessageType::kServerReply;
  enum class Kind : uint8_t {
    kHandles = 1,    // the handles for the server; empty if the rank drives no rail
    kConnected = 2,  // the rank has its connections with the server, or needs none
    kReady = 3,      // the rank begins no call from `limit` on before it receives kAt or kAborted
    kDone = 4,       // the change has taken effect on this rank, and nothing uses the old lane any more
    kFailed = 5,     // the rank cannot connect with the server, for the reason in `text`
  };
  Kind kind = Kind::kHandles;
  uint32_t change = 0;  // as in the ServerEvent
  uint64_t limit = 0;
  Blob handles{};
  std::string text{};
};

}  // namespace bps
