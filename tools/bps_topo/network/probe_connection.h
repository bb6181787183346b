// ProbeConnection: the control connection between two `bps-topo probe` processes, after the handshake. It carries one
// message at a time, each with a deadline. A side that fails sends the failure as its last message. Belongs to one
// thread.
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
  // The deadline for the next message of the other side: the peer timeout plus `more`, the time of the work before it.
  Deadline peerTimeout(std::chrono::milliseconds more = {}) const { return Deadline::in(peerTimeout_ + more); }

  template <ControlMessage T>
  Status sendMessage(const T& message) {
    socket_->queue(message);
    return flush();
  }
  // Receives the next message. Fails after the peer timeout, on a message of another type, or with the failure that the
  // other side sends.
  template <ControlMessage T>
  Result<T> receiveMessage() {
    const Frame frame = BPS_TRY(next());
    if (frame.header.type != T::kType) return unexpected(frame);
    return decode<T>(frame.payload);
  }
  // After a failure: true if the other side rejected this one because it serves another client.
  bool busy() const { return busy_; }
  // Fails if the other side has closed the connection or has sent a failure. Never blocks.
  Status checkPeer();

  // Ends the session normally. Waits a short time for the other side to close.
  void finish();
  // Waits until the other side ends the session or closes the connection.
  void waitForClose() { (void)next(); }
  // Sends a failure as the last message. Waits a short time until the other side has read it or has closed.
  void sendFailure(const Status& why);
  // If both sides fail, one has the root cause. Returns the other side's failure if it arrives shortly, else `own`.
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
