// SocketComm: what the sending and the receiving end of a TCP connection share: the socket, its failures and its sleep.
#pragma once
#include <string>

#include "net_plugin/comm.h"
#include "net_plugin/tcp/interest.h"

namespace bps::plugin::tcp {

class SocketComm : public Comm {
 public:
  explicit SocketComm(UniqueFd socket);

  Result<int> waitFd() final { return interest_.fd(); }
  Result<bool> arm() final;

 protected:
  // Most bytes that one progress() moves, so that one busy connection does not starve the others of its thread.
  static constexpr size_t kMostPerCall = size_t{1} << 20;

  // What to wait for while messages are under way; called right before a sleep.
  virtual Interest::For prepareSleep() = 0;
  // Received bytes that no receive has been posted for.
  virtual bool hasUnclaimed() const { return false; }
  // What of progress() is due before a sleep: send what is queued, hand out what was read ahead. Reading is not: the
  // sleep ends when there is something to read.
  virtual Status flush() = 0;
  // progress() stopped at kMostPerCall and not because the socket would block.
  void setMore(bool more) { more_ = more; }

  int socket() const { return socket_.get(); }
  const std::string& peer() const { return peer_; }
  Status peerClosed() const;
  Status socketFailed(int error) const;
  void sawData() { silent_ = false; }  // on every receipt

 private:
  Result<bool> armIdle();
  Status examineHangup();

  UniqueFd socket_;
  std::string peer_;
  Interest interest_;
  bool more_ = false;
  bool silent_ = false;  // the peer has hung up, but bytes wait to be received first: nothing to wake up for
  unsigned idleArms_ = 0;
};

}  // namespace bps::plugin::tcp
