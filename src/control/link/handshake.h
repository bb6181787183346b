// The first four frames of every control connection: both sides prove that they hold the same key, and make the keys
// that seal all frames after these (src/control/keys/seal.h).
//
//   connecting  Hello{magic, version, purpose, auth, nonce, public key, address dialled}  →     accepting
//               ←             Challenge{nonce, public key}   (or Refusal)
//               Proof{HMAC(key, connecting side, hash of Hello and Challenge)}  →
//               ←             Welcome{HMAC(key, accepting side, hash of Hello, Challenge and Proof)}   (or Refusal)
//
// Who connects proves first, so a stranger learns nothing that depends on the key. The hashes take in whole frames with
// their headers, which tell the job from the Challenge on: whoever changes a byte on the way ends the handshake. The
// session keys come from the key, the X25519 keys of both and the hash of the first three frames. With BPS_AUTH=off on
// both sides the same frames run with a key of zeros, which protects from nobody who takes part in the handshake.
//
// Each class is one side as a state machine that moves only forward; step() never blocks.
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
  // The key to use: zeros without authentication.
  Key effectiveKey() const { return auth ? key : Key{}; }
};

// An authenticated connection.
struct Peer {
  std::unique_ptr<ControlSocket> socket;
  uint32_t timeoutMs = 0;  // the peer's
};

class AcceptingHandshake {
 public:
  // `job`: what the connection's frames carry from the Challenge on; 0: what the peer's Hello carries.
  AcceptingHandshake(std::unique_ptr<ControlSocket> socket, const Credentials& credentials, Purpose purpose,
                     uint64_t job);
  Result<Progress> step();  // a failure has queued a refusal, if the peer can read one
  bool helloReceived() const { return state_ != State::kAwaitingHello; }  // a Hello of this protocol has come
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
  std::optional<KeyPair> mine_;  // from the Hello on
  PublicKey theirs_{};
};

class ConnectingHandshake {
 public:
  // `job`: the id that this side gives to the connection; 0: the accepting side does.
  ConnectingHandshake(std::unique_ptr<ControlSocket> socket, const Credentials& credentials, Purpose purpose,
                      uint64_t job);
  // After a failure final() tells whether trying again is pointless: the peer spoke, and refused or was refused.
  Result<Progress> step();
  bool final() const { return final_; }
  // What the peer's refusal said.
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
