// LivenessSocket: the unix socket between the two ends of a connection. It carries no data: its hang-up tells that the
// other process has closed the connection or died, and a byte in it wakes an end that sleeps.
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
  // Takes the bells that were rung. A hang-up is told once no bell is left.
  Event receiveEvent() const;

  // What a sleeper polls: readable while there is a bell to take or the other end has hung up, if watched.
  Result<int> waitFd();
  // Costs no system call when it stays the same.
  Status setWatched(bool on);

 private:
  UniqueFd socket_;
  std::string peer_;
  UniqueFd epoll_;  // made at first use: callers that only poll cost no descriptor
  bool watched_ = false;
};

}  // namespace bps::plugin::shm
