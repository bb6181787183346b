// ProbeConnection: the control connection between two bps-topo probe, after the handshake: one message at a time, each
// with a deadline. Whatever goes wrong on one side is its last word to the other. Belongs to one thread.
#pragma once
#include <deque>
#include <memory>
#include <string>

#include "src/base/deadline.h"
#include "src/control/link/handshake.h"

namespace bps {

class ProbeConnection {
 public:
  ProbeConnection(Peer peer, std::chrono::milliseconds peerTimeout)
      : socket_(std::move(peer.socket)), name_(socket_->peer()), peerTimeout_(peerTimeout) {}

  const std::string& name() const { return name_; }  // the other side's address
  uint64_t job() const { return socket_->job(); }
  // How long this side waits for a word of the other one; longer for what takes time of its own.
  Deadline peerTimeout(std::chrono::milliseconds more = {}) const { return Deadline::in(peerTimeout_ + more); }

  template <ControlMessage T>
  Status sendMessage(const T& message) {
    socket_->queue(message);
    return flush();
  }
  // The next message, within the patience; another kind is a failure. So is what the other side says of a failure.
  template <ControlMessage T>
  Result<T> receiveMessage() {
    const Frame frame = BPS_TRY(next());
    if (frame.header.type != T::kType) return unexpected(frame);
    return decode<T>(frame.payload);
  }
  // Of a failure: the other side serves somebody else.
  bool busy() const { return busy_; }
  // Fails when the other side has gone or has failed. Never waits.
  Status checkPeer();

  // Ends well; waits until the other side has ended too, but not long.
  void finish();
  // Until the other side has finished, or has gone.
  void waitForClose() { (void)next(); }
  // The last word of a side that cannot go on; waits until it is read, or the other side has gone, but not long.
  void sendFailure(const Status& why);
  // Of two sides that fail, one has the reason: what the other one says of it within a moment, else `own`.
  Status rootCause(Status own);

 private:
  Status flush();
  Result<Frame> next();
  Status take();
  Status connectionError(const Status& why) const;
  Status unexpected(const Frame& frame) const;
  void waitForEof();
  bool poll(bool write, Deadline deadline) const;

  std::unique_ptr<ControlSocket> socket_;
  std::string name_;
  std::chrono::milliseconds peerTimeout_;
  std::deque<Frame> frames_;
  bool busy_ = false;
};

}  // namespace bps
