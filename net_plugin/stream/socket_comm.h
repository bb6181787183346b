// SocketComm: what the sending and the receiving end of a connection over sockets share: the sockets, of which there
// are one or several, their failures and their sleep.
//
// Any slice of any message may pass through any socket. Messages finish in the order of their posting, whatever the
// order in which their slices pass.
#pragma once
#include <string>
#include <vector>

#include "net_plugin/comm.h"
#include "net_plugin/look_pace.h"
#include "net_plugin/stream/ack_watch.h"
#include "net_plugin/stream/assembly.h"
#include "net_plugin/stream/interest.h"

namespace bps::plugin::stream {

class SocketComm : public Comm {
 public:
  // At least one socket, in the same order as at the other end.
  SocketComm(std::vector<UniqueFd> sockets, Patience patience);

  Result<std::unique_ptr<Comm>> reverse() final;
  Result<int> waitFd() final { return interest_.fd(); }
  Result<bool> arm() final;

 protected:
  // Most bytes that one progress() moves, so that one busy connection does not starve the others of its thread.
  static constexpr size_t kMostPerCall = size_t{1} << 20;

  // What runs the other way on these sockets.
  virtual std::unique_ptr<SocketComm> reversed(std::vector<UniqueFd> sockets) const = 0;
  virtual void onShared() {}
  // What to wait for on a socket while messages are under way; called right before a sleep.
  virtual Interest::For prepareSleep(size_t index) = 0;
  // The peer has hung up on a socket, and nothing waits in it to be received. A failure if that ends the connection.
  virtual Status hungUp(size_t index) = 0;
  // Bytes from a socket that no receive has been posted for.
  virtual bool hasUnclaimed(size_t) const { return false; }
  // What of progress() is due before a sleep: send what is queued, hand out what was read ahead. Reading is not: the
  // sleep ends when there is something to read.
  virtual Status flush() = 0;
  // progress() stopped at kMostPerCall and not because the sockets would block.
  void setMore(bool more) { more_ = more; }

  size_t sockets() const { return sockets_.size(); }
  int socket(size_t index) const { return sockets_[index].fd.get(); }
  Patience patience() const { return patience_; }
  // Another Comm uses the sockets' other direction.
  bool isShared() const { return shared_; }
  // Only a failure, or the end of what the peer sends, tells of its end: this end of the connection does not look.
  void ignoreHangups();
  const std::string& peer() const { return peer_; }
  Status peerClosed() const;
  Status socketFailed(int error) const;
  void sawData(size_t index) { sockets_[index].silent = false; }  // on every receipt

  Assembly& assembly() { return assembly_; }
  // Called by each progress(), and by arm(): fails, by the clock, when the peer acknowledges nothing (ack_watch.h). So
  // every thread that waits for something on the connection looks, whether it polls or sleeps for a while at a time.
  Status checkAcks();
  // Called by each progress() of a receiving end. Who polls for long does not sleep: until the next arm() the kernel
  // need not look for somebody to wake at each packet.
  void notePoll();
  // Finishes the messages at the front that are whole.
  void finishWhole();

 private:
  struct Socket {
    UniqueFd fd;
    Interest::For current = Interest::For::kNothing;
    bool silent = false;  // the peer has hung up, but bytes wait to be received first: nothing to wake up for
    unsigned idleArms = 0;
    AckWatch acks{};
  };

  Status sleepOn(size_t index, Interest::For what);
  Status examineHangup(size_t index);

  std::vector<Socket> sockets_;
  const Patience patience_;
  LookPace pace_;
  bool shared_ = false;
  std::string peer_;
  Interest interest_;
  Assembly assembly_;
  bool more_ = false;
  unsigned polls_ = 0;  // since the last arm()
};

}  // namespace bps::plugin::stream
