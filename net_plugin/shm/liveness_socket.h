// LivenessSocket: the unix socket between the two ends of a shared memory connection. It carries no
// messages. A hang-up means that the peer has closed the connection or died. A byte in the socket
// wakes a sleeping peer.
#pragma once
#include <string>

#include "net_plugin/shm/unix_socket.h"

namespace bps::plugin::shm {

class LivenessSocket {
 public:
  explicit LivenessSocket(UniqueFd socket) : socket_(std::move(socket)), peer_(peerName(socket_.get())) {}

  const std::string& peer() const { return peer_; }
  void sendWakeup() const;

  enum class Event { kNothing, kWakeup, kHangup };
  // Consumes pending wake-ups. Reports a hang-up only if no wake-up is pending.
  Event receiveEvent() const;

  // Returns the descriptor on which a sleeping thread waits. While the socket is watched, the
  // descriptor is readable if a wake-up is pending or the peer has hung up.
  Result<int> waitFd();
  // Sets whether the descriptor of waitFd() watches the socket. Makes a system call only if the
  // setting changes.
  Status setWatched(bool on);

 private:
  UniqueFd socket_;
  std::string peer_;
  UniqueFd epoll_;  // created at first use, so that callers that never sleep need no descriptor
  bool watched_ = false;
};

}  // namespace bps::plugin::shm
