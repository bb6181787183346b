// The messages of the control plane. Each message is a struct whose fields are in wire order. A frame carries the bytes
// of one message (src/wire/frame.h).
//
// decode<T>() rejects truncated messages, trailing bytes and values that are out of range. The receiver of a message
// makes the checks that need context, for example whether a rank is below the number of ranks.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/io/socket.h"
#include "src/base/io/wire_io.h"
#include "src/base/status.h"
#include "src/wire/frame.h"

namespace bps {

enum class Purpose : uint8_t { kJoin = 1, kRendezvous = 2, kServer = 3, kProbe = 4 };
const char* purposeName(Purpose purpose);

using Nonce = std::array<uint8_t, 32>;
using Proof = std::array<uint8_t, 32>;
using PublicKey = std::array<uint8_t, 32>;  // X25519

// The first message of the connecting side. The format of a Hello is the same in all protocol versions.
struct Hello {
  static constexpr MessageType kType = MessageType::kHello;
  static constexpr uint32_t kMagic = 0x00737062;  // "bps\0"
  uint32_t magic = kMagic;
  uint16_t version = kControlVersion;
  Purpose purpose = Purpose::kJoin;
  bool auth = true;
  uint32_t timeoutMs = 0;  // the sender's BPS_TIMEOUT; the smaller of two peers' timeouts sets the heartbeat interval
  Nonce nonce{};
  PublicKey publicKey{};  // generated for this connection only
  std::string dialled;    // the address that the sender connected to
};
struct Challenge {
  static constexpr MessageType kType = MessageType::kChallenge;
  uint32_t timeoutMs = 0;
  Nonce nonce{};
  PublicKey publicKey{};
};
struct ProofMessage {
  static constexpr MessageType kType = MessageType::kProof;
  Proof proof{};
};
struct Welcome {
  static constexpr MessageType kType = MessageType::kWelcome;
  Proof proof{};
};

// A Refusal says why a peer is not served. After a Refusal its sender closes the connection. The format of a Refusal is
// the same in all protocol versions.
struct Refusal {
  static constexpr MessageType kType = MessageType::kRefusal;
  enum class Kind : uint8_t {
    kMismatch = 1,  // a configuration error: version, key, authentication mode or purpose differ
    kBusy = 2,      // the server is at a limit or draining; the job can run without this server
    kInvalid = 3,   // the request is invalid
  };
  Kind kind = Kind::kMismatch;
  Code code = Code::kRemote;
  std::string text;
};

struct RendezvousRequest {
  static constexpr MessageType kType = MessageType::kRendezvousRequest;
  uint32_t rank = 0;
  uint32_t nRanks = 0;
  uint32_t remainingMs = 0;  // how long the sender waits for the reply
  bool isHub = false;        // if true, the sender is the hub and listens at `hub`
  Address hub;
};
struct RendezvousReply {
  static constexpr MessageType kType = MessageType::kRendezvousReply;
  Address hub;
};

struct Join {
  static constexpr MessageType kType = MessageType::kJoin;
  uint32_t rank = 0;
  uint32_t nRanks = 0;
  uint32_t remainingMs = 0;
  uint32_t pid = 0;
  uint32_t libraryVersion = 0;
  std::string hostId;
  std::string hostName;
  double bytesPerSecond = 0;
  Address standby{};     // RankEntry::standby; empty in a communicator of one rank
  std::string group{};   // the ranks that a shrink excludes, as text; empty in other communicators
  std::string fabric{};  // the shape of the sender's fabric, such as "bcube:n=3,k=2"; empty if there is none
  // The rank of the neighbour whose relay the connection to the hub leads through; kDirect if there is none.
  static constexpr uint32_t kDirect = ~uint32_t{0};
  uint32_t via = kDirect;
};

// A server's first message to the hub after the handshake.
struct Offer {
  static constexpr MessageType kType = MessageType::kOffer;
  uint32_t libraryVersion = 0;
  double bytesPerSecond = 0;
};
// The hub's proposal of a roster to a server. The server answers an OpenJob with JobOpened or Refusal. A later proposal
// replaces an earlier proposal.
struct OpenJob {
  static constexpr MessageType kType = MessageType::kOpenJob;
  uint32_t proposal = 0;
  uint32_t endpoint = 0;
  Blob roster;
};
struct JobOpened {
  static constexpr MessageType kType = MessageType::kJobOpened;
  uint32_t proposal = 0;
};

// kSplit is a gather that the hub may cancel. Then only the split fails, and the communicator stays usable. kRecovery
// is a gather after the loss of a server. A rank that has left takes part in a kRecovery with an empty item.
enum class ControlOp : uint8_t { kGather = 0, kExchange = 1, kBarrier = 2, kSplit = 3, kRecovery = 4 };
inline constexpr size_t kControlOps = 5;
// True if the operation sends one item of every participant to all participants.
inline bool isGather(ControlOp kind) {
  return kind == ControlOp::kGather || kind == ControlOp::kSplit || kind == ControlOp::kRecovery;
}
const char* controlOpName(ControlOp kind);

struct ControlOpInput {
  static constexpr MessageType kType = MessageType::kControlOpInput;
  ControlOp kind = ControlOp::kGather;
  uint32_t number = 0;
  uint32_t remainingMs = 0;  // 0: no limit
  std::vector<Blob> blobs;
};
struct ControlOpResult {
  static constexpr MessageType kType = MessageType::kControlOpResult;
  ControlOp kind = ControlOp::kGather;
  uint32_t number = 0;
  std::vector<Blob> blobs;
  std::string givenUp{};  // the reason why the hub cancelled a split; otherwise empty
};

// Both sides of a control connection send a Heartbeat at every heartbeat interval. A Heartbeat also reports the
// sender's progress. From the progress of all members the hub finds members that cannot reach each other
// (src/control/hub/stall_detector.h).
struct Heartbeat {
  static constexpr MessageType kType = MessageType::kHeartbeat;
  static constexpr uint32_t kNobody = ~uint32_t{0};
  uint64_t callsStarted = 0;    // number of calls that this rank has begun; always 0 for a server
  uint64_t call = 0;            // number of a call that has waited for a member for Roster::waitReportTime()
  uint32_t waitsFor = kNobody;  // the awaited member

  bool sameWait(const Heartbeat& other) const { return call == other.call && waitsFor == other.waitsFor; }
};

// Asks the peer for its clock, in nanoseconds, to compare the clocks of members (src/wire/clock_offset.h).
struct ClockRequest {
  static constexpr MessageType kType = MessageType::kClockRequest;
  uint64_t sentAt = 0;  // the sender's clock
};
struct ClockReply {
  static constexpr MessageType kType = MessageType::kClockReply;
  uint64_t sentAt = 0;  // of the request
  uint64_t at = 0;      // the replying side's clock
};

struct FailureMessage {
  static constexpr MessageType kType = MessageType::kFailure;
  Code code = Code::kRemote;
  std::string text;
};
struct Suspect {
  static constexpr MessageType kType = MessageType::kSuspect;
  uint32_t member = 0;  // member number, see Roster::members()
  std::string text;
};
// The hub tells the other ranks that a member has left (the member has sent goodbye).
struct Left {
  static constexpr MessageType kType = MessageType::kLeft;
  uint32_t member = 0;
};

// A server's answer to kCheck. `bps-server --check` may send kCheck any number of times on one connection.
struct CheckReport {
  static constexpr MessageType kType = MessageType::kCheckReport;
  uint32_t jobs = 0, maxJobs = 0;
  uint64_t bytesSummed = 0;                     // since the server started
  uint64_t freeDescriptors = 0, freeBytes = 0;  // resources that are available to further jobs
};

// Two `bps-topo probe` processes, of which one listens, exchange the Probe messages. The listening side first sends one
// ProbeDevice for each device of its transport. There is at least one device.
struct ProbeDevice {
  static constexpr MessageType kType = MessageType::kProbeDevice;
  uint32_t count = 1;  // number of ProbeDevice messages
  std::string name;
  Address address;  // of the network interface, with port 0; empty for other devices
};
// Requests a measurement. First the listening side receives `bursts` bursts of messages, each `burstMs` long. Then the
// listening side sends the same number of bursts. The data uses two one-way connections of the transport, and each side
// sends the handle of its listener in a message.
struct ProbeOpen {
  static constexpr MessageType kType = MessageType::kProbeOpen;
  uint32_t device = 0;  // index of the listening side's device
  uint32_t bursts = 0;
  uint32_t burstMs = 0;
  Blob handle;
};
struct ProbeOpened {
  static constexpr MessageType kType = MessageType::kProbeOpened;
  Blob handle;
};
// The listening side sends a ProbeRate after each burst that it has received.
struct ProbeRate {
  static constexpr MessageType kType = MessageType::kProbeRate;
  double bytesPerSecond = 0;
};

// The name of a message type for error texts, such as "control op input". The name of an unknown type is, for example,
// "message 77".
std::string messageName(MessageType type);

template <class T>
concept ControlMessage = requires {
  {T::kType};
};
template <ControlMessage T>
Blob encode(const T& message);
template <ControlMessage T>
Result<T> decode(std::span<const uint8_t> bytes);

}  // namespace bps
