// The first four frames of every control connection. Both sides prove that they hold the same key, and derive the keys
// that seal all later frames (src/control/keys/seal.h).
//
//   connecting  Hello{magic, version, purpose, auth, nonce, public key, address dialled}  →     accepting
//               ←             Challenge{nonce, public key}   (or Refusal)
//               Proof{HMAC(key, connecting side, hash of Hello and Challenge)}  →
//               ←             Welcome{HMAC(key, accepting side, hash of Hello, Challenge and Proof)}   (or Refusal)
//
// The connecting side proves first, so an unauthenticated client learns nothing that depends on the key. The hashes
// cover whole frames with their headers, which carry the job id from the Challenge on. Any change on the way makes the
// handshake fail. The session keys depend on the key, both X25519 keys and the hash of the first three frames. With
// BPS_AUTH=off on both sides the same frames are sent with a key of zeros, which gives no protection against an active
// attacker.
//
// Each class is one side, a state machine that moves only forward. step() never blocks. Belongs to the thread of its
// owner.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/control/keys/crypto.h"
#include "src/control/link/control_socket.h"
#include "src/control/unique_id.h"

namespace bps {

struct Credentials {
  Key key{};
  bool auth = true;
  uint32_t timeoutMs = 10'000;  // this side's BPS_TIMEOUT
  // The key in use: zeros without authentication.
  Key effectiveKey() const { return auth ? key : Key{}; }
};

// An authenticated connection.
struct Peer {
  std::unique_ptr<ControlSocket> socket;
  uint32_t timeoutMs = 0;  // the peer's
};

class AcceptingHandshake {
 public:
  // `job` is the id in the connection's frames from the Challenge on; 0 selects the id of the peer's Hello.
  AcceptingHandshake(std::unique_ptr<ControlSocket> socket, const Credentials& credentials, Purpose purpose,
                     uint64_t job);
  Result<Progress> step();  // on failure a refusal is queued, if the peer can read one
  bool helloReceived() const { return state_ != State::kAwaitingHello; }  // a valid Hello has arrived
  ControlSocket& socket() { return *peer_.socket; }
  const ControlSocket& socket() const { return *peer_.socket; }
  Peer take() { return std::move(peer_); }

 private:
  enum class State { kAwaitingHello, kAwaitingProof, kSendingWelcome, kReady };
  Result<Progress> awaitHello();
  Result<Progress> awaitProof();
  Status checkHello(const Frame& frame);
  Status welcome();
  Status refuse(const std::string& text);

  State state_ = State::kAwaitingHello;
  Peer peer_;
  Credentials credentials_;
  Purpose purpose_;
  uint64_t job_;
  std::optional<KeyPair> mine_;  // set when the Hello arrives
  PublicKey theirs_{};
};

class ConnectingHandshake {
 public:
  // `job` is the id that this side gives to the connection; 0 lets the accepting side choose it.
  ConnectingHandshake(std::unique_ptr<ControlSocket> socket, const Credentials& credentials, Purpose purpose,
                      uint64_t job);
  // After a failure final() says whether a retry is pointless: the peer answered, and one of the sides refused.
  Result<Progress> step();
  bool final() const { return final_; }
  // The content of the peer's refusal.
  const std::optional<Refusal>& refusal() const { return refusal_; }
  ControlSocket& socket() { return *peer_.socket; }
  Peer take() { return std::move(peer_); }

 private:
  enum class State { kAwaitingChallenge, kAwaitingWelcome, kReady };
  Result<Progress> awaitChallenge();
  Result<Progress> awaitWelcome();
  Result<std::optional<Frame>> next(MessageType expected);
  Status refuse(const std::string& text);

  State state_ = State::kAwaitingChallenge;
  Peer peer_;
  Credentials credentials_;
  Purpose purpose_;
  uint64_t job_;
  KeyPair mine_;
  PublicKey theirs_{};
  bool final_ = false;
  std::optional<Refusal> refusal_;
};

}  // namespace bps
