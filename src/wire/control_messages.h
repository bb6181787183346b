// The messages of the control plane, each a struct with its fields in wire order; src/wire/frame.h carries them.
//
// decode<T>() checks every field: truncation, trailing bytes, enumerators out of range. What it accepts is safe to
// use, up to checks that need context (a rank against the number of ranks), which the receiver makes.
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

// First word of whoever connects. Its form is the same in all versions up to `version`.
struct Hello {
  static constexpr MessageType kType = MessageType::kHello;
  static constexpr uint32_t kMagic = 0x00737062;  // "bps\0"
  uint32_t magic = kMagic;
  uint16_t version = kControlVersion;
  Purpose purpose = Purpose::kJoin;
  bool auth = true;
  uint32_t timeoutMs = 0;  // the sender's BPS_TIMEOUT: a tenth of the smaller one is the heartbeat
  Nonce nonce{};
  PublicKey publicKey{};  // of this connection only
  std::string dialled;    // the address that the sender has connected to
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

// Why a peer is not served; the connection ends after it. Same form in all versions.
struct Refusal {
  static constexpr MessageType kType = MessageType::kRefusal;
  enum class Kind : uint8_t {
    kMismatch = 1,  // version, key, authentication mode, purpose: somebody must change something
    kBusy = 2,      // limits, draining: the peer can do without
    kInvalid = 3,   // what was asked for makes no sense
  };
  Kind kind = Kind::kMismatch;
  Code code = Code::kRemote;
  std::string text;
};

struct RendezvousRequest {
  static constexpr MessageType kType = MessageType::kRendezvousRequest;
  uint32_t rank = 0;
  uint32_t nRanks = 0;
  uint32_t remainingMs = 0;  // how long the sender will wait
  bool isHub = false;        // then `hub` is where it listens
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
};

// A server's first word to the hub.
struct Offer {
  static constexpr MessageType kType = MessageType::kOffer;
  uint32_t libraryVersion = 0;
  double bytesPerSecond = 0;
};
// The hub's proposal to a server; answered by JobOpened or Refusal. A later proposal replaces an earlier one.
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

// kSplit: a gather that may be given up, which fails nothing but the split.
enum class ControlOp : uint8_t { kGather = 0, kExchange = 1, kBarrier = 2, kSplit = 3 };
inline constexpr size_t kControlOps = 4;
// Everyone's one item to everyone.
inline bool isGather(ControlOp kind) { return kind == ControlOp::kGather || kind == ControlOp::kSplit; }
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
  std::string givenUp{};  // why there are no blobs, of a split; empty: there are
};

// What every connection carries in both directions when nothing else is said, and how far the sender is: the hub finds
// out by it which members cannot reach each other (src/control/hub/stall_detector.h).
struct Heartbeat {
  static constexpr MessageType kType = MessageType::kHeartbeat;
  static constexpr uint32_t kNobody = ~uint32_t{0};
  uint64_t callsStarted = 0;    // calls that have come to their place in the stream of this rank; 0 of a server
  uint64_t call = 0;            // the number of the call that waits for another member, for the time-out or longer
  uint32_t waitsFor = kNobody;  // that member

  bool sameWait(const Heartbeat& other) const { return call == other.call && waitsFor == other.waitsFor; }
};

struct FailureMessage {
  static constexpr MessageType kType = MessageType::kFailure;
  Code code = Code::kRemote;
  std::string text;
};
struct Suspect {
  static constexpr MessageType kType = MessageType::kSuspect;
  uint32_t member = 0;  // as in Roster::members()
  std::string text;
};
// Somebody, not the hub, has said goodbye.
struct Left {
  static constexpr MessageType kType = MessageType::kLeft;
  uint32_t member = 0;
};

// A server's answer to kCheck, which `bps-server --check` asks any number of times before it opens a job.
struct CheckReport {
  static constexpr MessageType kType = MessageType::kCheckReport;
  uint32_t jobs = 0, maxJobs = 0;
  uint64_t bytesSummed = 0;                     // since it has started
  uint64_t freeDescriptors = 0, freeBytes = 0;  // that jobs may still take
};

// Between two `bps-topo probe`, of which one listens. First it says what its transport offers, a message for each
// device, at least one.
struct ProbeDevice {
  static constexpr MessageType kType = MessageType::kProbeDevice;
  uint32_t count = 1;  // of these messages
  std::string name;
  Address address;  // of a network interface, port 0; empty: the device is none
};
// What is to be measured: `turns` times messages for `turnMs` to the listening side, then as many times from it. The
// data connections are two one-way ones of the transport; each side tells where it takes its own.
struct ProbeOpen {
  static constexpr MessageType kType = MessageType::kProbeOpen;
  uint32_t device = 0;  // of the listening side
  uint32_t turns = 0;
  uint32_t turnMs = 0;
  Blob handle;
};
struct ProbeOpened {
  static constexpr MessageType kType = MessageType::kProbeOpened;
  Blob handle;
};
// After each turn that the listening side received.
struct ProbeRate {
  static constexpr MessageType kType = MessageType::kProbeRate;
  double bytesPerSecond = 0;
};

// "round part"; for a type that is none "message 77".
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
