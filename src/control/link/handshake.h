// The handshake consists of the first four frames of every control connection. In the handshake both sides prove that
// they hold the same key. The two sides also derive the session keys that seal all later frames
// (src/control/keys/seal.h).
//
//   connecting  Hello{magic, version, purpose, auth, nonce, public key, address dialled}  →     accepting
//               ←             Challenge{nonce, public key}   (or Refusal)
//               Proof{HMAC(key, connecting side, hash of Hello and Challenge)}  →
//               ←             Welcome{HMAC(key, accepting side, hash of Hello, Challenge and Proof)}   (or Refusal)
//
// The connecting side sends its proof first, so an unauthenticated client learns nothing that depends on the key. The
// hashes cover whole frames including their headers. From the Challenge on, the headers contain the job id. If anything
// changes a frame on the way, the handshake fails. The session keys depend on the key, on the X25519 keys of both sides
// and on the hash of the first three frames. With BPS_AUTH=off on both sides, the handshake sends the same frames but
// uses a key of zeros. A key of zeros gives no protection against an active attacker.
//
// Each of the two classes implements one side of the handshake as a state machine. step() never blocks. Only one thread
// uses a handshake object.
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
  // The key that the handshake uses. Without authentication this key is all zeros.
  Key effectiveKey() const { return auth ? key : Key{}; }
};

// An authenticated connection.
struct Peer {
  std::unique_ptr<ControlSocket> socket;
  uint32_t timeoutMs = 0;  // the peer's
};

class AcceptingHandshake {
 public:
  // `job` is the job id in the connection's frames from the Challenge on. If `job` is 0, the frames contain the job id
  // of the peer's Hello.
  AcceptingHandshake(std::unique_ptr<ControlSocket> socket, const Credentials& credentials, Purpose purpose,
                     uint64_t job);
  Result<Progress> step();  // a failed check queues a Refusal for the peer
  bool helloReceived() const { return state_ != State::kAwaitingHello; }  // a valid Hello has arrived
  bool provedWrongKey() const { return wrongKey_; }                       // step() failed because the keys differ
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
  bool wrongKey_ = false;
};

class ConnectingHandshake {
 public:
  // `job` is the job id that this side gives to the connection. If `job` is 0, the accepting side chooses the job id.
  ConnectingHandshake(std::unique_ptr<ControlSocket> socket, const Credentials& credentials, Purpose purpose,
                      uint64_t job);
  // If step() has failed and final() is true, a retry is pointless: the peer answered, and one of the two sides refused
  // the connection.
  Result<Progress> step();
  bool final() const { return final_; }
  // The Refusal that the peer has sent, if any.
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
