// ProbeConnection: the control connection between two `bps-topo probe` processes, after the
// handshake. The connection carries one message at a time, and each message has a deadline. If a
// process fails, it sends the failure as its last message. Used by one thread.
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

  const std::string& name() const { return name_; }  // the address of the other process
  uint64_t job() const { return socket_->job(); }
  // Returns the deadline for the next message of the other process. The deadline is the peer
  // timeout plus `more`, the time that the other process works before it sends.
  Deadline peerTimeout(std::chrono::milliseconds more = {}) const { return Deadline::in(peerTimeout_ + more); }

  template <ControlMessage T>
  Status sendMessage(const T& message) {
    socket_->queue(message);
    return flush();
  }
  // Receives the next message. Fails after the peer timeout, on a message of another type, or with
  // the failure that the other process sends.
  template <ControlMessage T>
  Result<T> receiveMessage() {
    const Frame frame = BPS_TRY(next());
    if (frame.header.type != T::kType) return unexpected(frame);
    return decode<T>(frame.payload);
  }
  // After a failure: returns true if the other process is busy with another client.
  bool busy() const { return busy_; }
  // Fails if the other process has closed the connection or has sent a failure. Never blocks.
  Status checkPeer();

  // Ends the session normally. Waits a short time until the other process closes the connection.
  void finish();
  // Waits until the other process ends the session or closes the connection.
  void waitForClose() { (void)next(); }
  // Sends a failure as the last message. Waits a short time until the other process has read the
  // failure or closed the connection.
  void sendFailure(const Status& why);
  // Returns the root cause if both processes fail. If the failure of the other process arrives
  // shortly, returns that failure. Otherwise returns `own`.
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
