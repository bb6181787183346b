// SocketComm: the base class of both ends of a connection over one or several sockets. It holds the
// sockets and turns their errors into a Status. It implements arm(), which prepares a sleep of the
// caller, and reverse(), which creates the Comm for the reverse direction.
//
// Any slice of a message may pass through any socket. Messages complete in the order of posting,
// regardless of the order of their slices.
#pragma once
#include <string>
#include <vector>

#include "net_plugin/comm.h"
#include "net_plugin/hangup_check.h"
#include "net_plugin/stream/ack_watch.h"
#include "net_plugin/stream/interest.h"
#include "net_plugin/stream/message_tracker.h"

namespace bps::plugin::stream {

class SocketComm : public Comm {
 public:
  // `sockets` has at least one socket, and the peer has the sockets in the same order.
  SocketComm(std::vector<UniqueFd> sockets, PeerTimeout peerTimeout);

  Result<std::unique_ptr<Comm>> reverse() final;
  Result<int> waitFd() final { return interest_.fd(); }
  Result<bool> arm() final;

 protected:
  // The most bytes that one progress() moves. The limit prevents a busy connection from starving
  // other connections of the same thread.
  static constexpr size_t kMaxBytesPerCall = size_t{1} << 20;

  // Creates the Comm for the reverse direction of these sockets.
  virtual std::unique_ptr<SocketComm> reversed(std::vector<UniqueFd> sockets) const = 0;
  virtual void onReversed() {}
  // Returns the event to wait for on a socket while messages are in flight. Called right before a sleep.
  virtual Interest::Event prepareSleep(size_t index) = 0;
  // Called after the peer has hung up on a socket and all data of the socket was received. Fails if
  // the hang-up ends the connection.
  virtual Status onHangup(size_t index) = 0;
  // Returns whether bytes of the socket were read ahead and wait for a receive to be posted.
  virtual bool hasUnreceivedData(size_t) const { return false; }
  // Does the work of progress() that is necessary before a sleep. flush() sends queued data and
  // delivers read-ahead data. flush() does not read the sockets, because a readable socket ends the
  // sleep.
  virtual Status flush() = 0;
  // Sets whether progress() stopped because of kMaxBytesPerCall and not because the sockets would
  // block.
  void setHasMoreToMove(bool more) { hasMoreToMove_ = more; }

  size_t sockets() const { return sockets_.size(); }
  int socket(size_t index) const { return sockets_[index].fd.get(); }
  PeerTimeout peerTimeout() const { return peerTimeout_; }
  // Returns whether another Comm uses the reverse direction of the sockets.
  bool hasReverse() const { return hasReverse_; }
  // Stops watching for hang-ups. The connection then finds the end of the peer only by errors or
  // EOF.
  void ignoreHangups();
  const std::string& peer() const { return peer_; }
  Status peerClosed() const;
  Status socketError(int error) const;
  void onDataReceived(size_t index) { sockets_[index].hangupIgnored = false; }  // must be called whenever data arrives

  MessageTracker& messageTracker() { return messageTracker_; }
  // Fails if the peer acknowledges no data (ack_watch.h). Checks once per interval. progress() and
  // arm() call checkAcks(), so both polling and sleeping threads check.
  Status checkAcks();
  // Called by progress() of a receiving end. After many polls without a sleep, countPoll() removes
  // the sockets from epoll until the next arm(). The kernel then makes no wake-up check for each
  // packet.
  void countPoll();
  // Completes the messages at the front of the queue whose slices have all been transferred.
  void finishCompleteMessages();

 private:
  struct Socket {
    UniqueFd fd;
    Interest::Event current = Interest::Event::kNothing;
    bool hangupIgnored = false;  // a hang-up does not wake, because it is known or irrelevant
    bool idleReader = false;     // the last arm() left an idle socket waiting for data
    unsigned idleArms = 0;
    AckWatch acks{};
  };

  Status armSocket(size_t index, Interest::Event what);
  Status checkHangup(size_t index);

  std::vector<Socket> sockets_;
  const PeerTimeout peerTimeout_;
  HangupCheck ackCheck_;
  bool hasReverse_ = false;
  std::string peer_;
  Interest interest_;
  MessageTracker messageTracker_;
  bool hasMoreToMove_ = false;
  unsigned polls_ = 0;  // number of polls since the last arm()
};

}  // namespace bps::plugin::stream
