// SocketComm: the base class of both ends of a connection over one or several sockets. It owns the sockets and
// implements their errors, sleeping and reverse().
//
// Any slice of a message may pass through any socket. Messages complete in the order of posting, whatever the order of
// their slices.
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
  // At least one socket, in the same order as at the peer.
  SocketComm(std::vector<UniqueFd> sockets, PeerTimeout peerTimeout);

  Result<std::unique_ptr<Comm>> reverse() final;
  Result<int> waitFd() final { return interest_.fd(); }
  Result<bool> arm() final;

 protected:
  // Limit of the bytes that one progress() moves, so that a busy connection does not starve others of the same thread.
  static constexpr size_t kMaxBytesPerCall = size_t{1} << 20;

  // Creates the Comm for the reverse direction of these sockets.
  virtual std::unique_ptr<SocketComm> reversed(std::vector<UniqueFd> sockets) const = 0;
  virtual void onReversed() {}
  // Returns the event to wait for on a socket while messages are in flight. Called right before a sleep.
  virtual Interest::Event prepareSleep(size_t index) = 0;
  // Called after the peer has hung up on a socket and all its data was received. Fails if that ends the connection.
  virtual Status onHangup(size_t index) = 0;
  // Whether bytes of the socket were read ahead and wait for a receive to be posted.
  virtual bool hasUnreceivedData(size_t) const { return false; }
  // The part of progress() that is required before a sleep: sends queued data and delivers read-ahead data. It does not
  // read, because the sleep ends if there is something to read.
  virtual Status flush() = 0;
  // True: progress() stopped because of kMaxBytesPerCall, not because the sockets would block.
  void setHasMoreToMove(bool more) { hasMoreToMove_ = more; }

  size_t sockets() const { return sockets_.size(); }
  int socket(size_t index) const { return sockets_[index].fd.get(); }
  PeerTimeout peerTimeout() const { return peerTimeout_; }
  // Whether another Comm uses the reverse direction of the sockets.
  bool hasReverse() const { return hasReverse_; }
  // Stops watching for hang-ups: the end of the peer is then learned from errors or EOF only.
  void ignoreHangups();
  const std::string& peer() const { return peer_; }
  Status peerClosed() const;
  Status socketError(int error) const;
  void onDataReceived(size_t index) { sockets_[index].hangupIgnored = false; }  // on every receipt

  MessageTracker& messageTracker() { return messageTracker_; }
  // Fails if the peer acknowledges no data (ack_watch.h); checks once per interval. Called by progress() and arm(), so
  // that polling and sleeping threads both check.
  Status checkAcks();
  // Called by progress() of a receiving end. After many polls without a sleep, removes the sockets from epoll until the
  // next arm(), which saves the kernel a wake-up check for each packet.
  void countPoll();
  // Completes the messages at the front of the queue whose slices have all passed.
  void finishCompleteMessages();

 private:
  struct Socket {
    UniqueFd fd;
    Interest::Event current = Interest::Event::kNothing;
    bool hangupIgnored = false;  // do not wake for a hang-up: it is known, or it does not matter
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
  unsigned polls_ = 0;  // since the last arm()
};

}  // namespace bps::plugin::stream
