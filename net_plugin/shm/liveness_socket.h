// LivenessSocket: the unix socket between the two ends of a shared memory connection. It carries no data. A hang-up
// means that the other process has closed the connection or died. A byte in it wakes a sleeping peer.
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

  // The descriptor for a sleeping thread. If the socket is watched, it is readable while a wake-up is pending and after
  // the peer has hung up.
  Result<int> waitFd();
  // Makes a system call only if the setting changes.
  Status setWatched(bool on);

 private:
  UniqueFd socket_;
  std::string peer_;
  UniqueFd epoll_;  // created at first use, so that callers that never sleep need no descriptor
  bool watched_ = false;
};

}  // namespace bps::plugin::shm
