// ManInTheMiddle: relays a control connection without holding the key. ManInTheMiddle reads all bytes of the connection
// and may change some of them.
#pragma once
#include <sys/socket.h>

#include <memory>
#include <optional>

#include "src/control/link/handshake.h"

namespace bps::test {

class ManInTheMiddle {
 public:
  // A change to the handshake that flips a bit of byte `byte` in frame `frame`. Frame 0 is Hello, 1 is Challenge, 2 is
  // Proof, and 3 is Welcome.
  struct Change {
    size_t frame, byte;
  };

  explicit ManInTheMiddle(Credentials credentials, std::optional<Change> change = {}, uint32_t first = 0)
      : change_(change) {
    auto [left, toLeft] = pair();
    auto [right, toRight] = pair();
    toLeft_ = std::move(toLeft);
    toRight_ = std::move(toRight);
    ConnectingHandshake connecting(std::make_unique<ControlSocket>(std::move(left), first), credentials, Purpose::kJoin,
                                   0);
    AcceptingHandshake accepting(std::make_unique<ControlSocket>(std::move(right), first), credentials, Purpose::kJoin,
                                 55);
    for (int turn = 0; turn < 4; ++turn) {
      connected_ = done(connecting);
      pass(toLeft_, toRight_);
      accepted_ = done(accepting);
      pass(toRight_, toLeft_);
    }
    left_ = connecting.take().socket;
    right_ = accepting.take().socket;
  }

  bool connected() const { return connected_; }
  bool accepted() const { return accepted_; }
  ControlSocket& left() { return *left_; }
  ControlSocket& right() { return *right_; }

  // Returns the bytes that the left end has sent since the last call. Does not forward these bytes.
  Blob takeFromLeft() {
    [[maybe_unused]] const bool flushed = left_->flush().ok();
    return receive(toLeft_);
  }
  void sendToRight(const Blob& bytes) { send(toRight_, bytes); }
  void sendToLeft(const Blob& bytes) { send(toLeft_, bytes); }
  void hangUpOnRight() { toRight_.reset(); }

 private:
  static std::pair<UniqueFd, UniqueFd> pair() {
    int fds[2] = {-1, -1};
    [[maybe_unused]] const int made = ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds);
    return {UniqueFd(fds[0]), UniqueFd(fds[1])};
  }
  template <class Handshake>
  static bool done(Handshake& handshake) {
    Result<Progress> progress = handshake.step();
    [[maybe_unused]] const bool flushed = handshake.socket().flush().ok();
    return progress.ok() && std::move(progress).value() == Progress::kDone;
  }
  static Blob receive(const UniqueFd& from) {
    Blob bytes(1U << 16);
    const ssize_t count = ::recv(from.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(count > 0 ? static_cast<size_t>(count) : 0);
    return bytes;
  }
  static void send(const UniqueFd& to, const Blob& bytes) {
    [[maybe_unused]] const ssize_t count = ::send(to.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  void pass(const UniqueFd& from, const UniqueFd& to) {
    Blob bytes = receive(from);
    if (bytes.empty()) return;
    if (change_ && change_->frame == passed_++ && change_->byte < bytes.size()) bytes[change_->byte] ^= 1;
    send(to, bytes);
  }

  std::optional<Change> change_;
  size_t passed_ = 0;
  UniqueFd toLeft_, toRight_;
  std::unique_ptr<ControlSocket> left_, right_;
  bool connected_ = false, accepted_ = false;
};

}  // namespace bps::test
