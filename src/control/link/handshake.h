// The first four frames of every control connection: both sides prove that they hold the same key.
//
//   connecting  Hello{magic, version, purpose, auth, nonce}  →             accepting
//               ←             Challenge{nonce}   (or Refusal)
//               Proof{HMAC(key, connecting side, nonces, purpose)}  →
//               ←             Welcome{HMAC(key, accepting side, ...)}   (or Refusal)
//
// Who connects proves first, so a stranger learns nothing that depends on the key. The connection is authenticated,
// not encrypted. With BPS_AUTH=off on both sides the same frames run with a key of zeros.
//
// Each class is one side as a state machine that moves only forward; step() never blocks.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "src/base/status.h"
#include "src/control/link/control_socket.h"
#include "src/control/unique_id.h"

namespace bps {

struct Credentials {
  Key key{};
  bool auth = true;
  uint32_t timeoutMs = 10'000;  // this side's BPS_TIMEOUT
  // The key to use: zeros without authentication.
  Key keyInForce() const { return auth ? key : Key{}; }
};

// An authenticated connection.
struct Peer {
  std::unique_ptr<ControlSocket> socket;
  uint32_t timeoutMs = 0;  // the peer's
};

class AcceptingHandshake {
 public:
  // `job`: what the connection's frames carry from the Welcome on; 0: what the peer's Hello carries.
  AcceptingHandshake(std::unique_ptr<ControlSocket> socket, const Credentials& credentials, Purpose purpose,
                     uint64_t job);
  Result<Progress> step();  // a failure has queued a refusal, if the peer can read one
  ControlSocket& socket() { return *peer_.socket; }
  const ControlSocket& socket() const { return *peer_.socket; }
  Peer take() { return std::move(peer_); }

 private:
  enum class State { kAwaitingHello, kAwaitingProof, kSendingWelcome, kReady };
  Result<Progress> awaitHello();
  Result<Progress> awaitProof();
  Status checkHello(const Frame& frame);
  Status refuse(const std::string& text);

  State state_ = State::kAwaitingHello;
  Peer peer_;
  Credentials credentials_;
  Purpose purpose_;
  uint64_t job_;
  Nonce mine_{}, theirs_{};
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
  Nonce mine_{}, theirs_{};
  bool final_ = false;
  std::optional<Refusal> refusal_;
};

}  // namespace bps
