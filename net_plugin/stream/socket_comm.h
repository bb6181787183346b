// SocketComm: what the sending and the receiving end of a connection over sockets share: the sockets, of which there
// are one or several, their failures and their sleep.
//
// Any slice of any message may pass through any socket. Messages finish in the order of their posting, whatever the
// order in which their slices pass.
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
  // At least one socket, in the same order as at the other end.
  SocketComm(std::vector<UniqueFd> sockets, PeerTimeout peerTimeout);

  Result<std::unique_ptr<Comm>> reverse() final;
  Result<int> waitFd() final { return interest_.fd(); }
  Result<bool> arm() final;

 protected:
  // Most bytes that one progress() moves, so that one busy connection does not starve the others of its thread.
  static constexpr size_t kMaxBytesPerCall = size_t{1} << 20;

  // What runs the other way on these sockets.
  virtual std::unique_ptr<SocketComm> reversed(std::vector<UniqueFd> sockets) const = 0;
  virtual void onReversed() {}
  // What to wait for on a socket while messages are under way; called right before a sleep.
  virtual Interest::Event prepareSleep(size_t index) = 0;
  // The peer has hung up on a socket, and nothing waits in it to be received. A failure if that ends the connection.
  virtual Status onHangup(size_t index) = 0;
  // Bytes from a socket that no receive has been posted for.
  virtual bool hasUnreceivedData(size_t) const { return false; }
  // What of progress() is due before a sleep: send what is queued, hand out what was read ahead. Reading is not: the
  // sleep ends when there is something to read.
  virtual Status flush() = 0;
  // progress() stopped at kMostPerCall and not because the sockets would block.
  void setHasMoreToMove(bool more) { hasMoreToMove_ = more; }

  size_t sockets() const { return sockets_.size(); }
  int socket(size_t index) const { return sockets_[index].fd.get(); }
  PeerTimeout peerTimeout() const { return peerTimeout_; }
  // Another Comm uses the sockets' other direction.
  bool hasReverse() const { return hasReverse_; }
  // Only a failure, or the end of what the peer sends, tells of its end: this end of the connection does not look.
  void ignoreHangups();
  const std::string& peer() const { return peer_; }
  Status peerClosed() const;
  Status socketError(int error) const;
  void onDataReceived(size_t index) { sockets_[index].hangupIgnored = false; }  // on every receipt

  MessageTracker& messageTracker() { return messageTracker_; }
  // Called by each progress(), and by arm(): fails, by the clock, when the peer acknowledges nothing (ack_watch.h). So
  // every thread that waits for something on the connection looks, whether it polls or sleeps for a while at a time.
  Status checkAcks();
  // Called by each progress() of a receiving end. Who polls for long does not sleep: until the next arm() the kernel
  // need not look for somebody to wake at each packet.
  void countPoll();
  // Finishes the messages at the front that are whole.
  void finishCompleteMessages();

 private:
  struct Socket {
    UniqueFd fd;
    Interest::Event current = Interest::Event::kNothing;
    bool hangupIgnored = false;  // the peer has hung up, but bytes wait to be received first: nothing to wake up for
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
