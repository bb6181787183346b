// Link: an authenticated connection with a name and heartbeats. Ranks, the hub and servers use it.
//
// It sends a heartbeat if it has sent nothing for a tenth of the timeout, and fails if the peer has been silent for
// half of it. If the owner's loop did not run for a while (a stopped process), the silence of that time does not count
// against the peer. A peer that sends more frames than any peer needs is read at a bounded rate, so that it does not
// slow down the loop's other connections; TCP flow control then holds it back. Belongs to the thread of its owner.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "src/control/link/handshake.h"
#include "src/control/link/poll_set.h"

namespace bps {

class Link {
 public:
  using TimePoint = PollSet::TimePoint;

  Link(Peer peer, std::string name, uint32_t timeoutMs);

  const std::string& name() const { return name_; }
  void rename(std::string name) { name_ = std::move(name); }
  void setTimeout(uint32_t timeoutMs);
  const std::string& peer() const { return socket_->peer(); }
  uint64_t job() const { return socket_->job(); }

  template <ControlMessage T>
  void send(const T& message) {
    socket_->queue(message);
  }
  void send(MessageType type, const Blob& payload = {}) { socket_->queue(type, payload); }

  // The content of the next heartbeats sent, and of the last one received.
  void setHeartbeat(const Heartbeat& heartbeat) { ownHeartbeat_ = heartbeat; }
  const Heartbeat& heartbeat() const { return peerHeartbeat_; }

  void watch(PollSet& set) const;
  // Call once per iteration of the loop: reads if the set reports input. Then take frames with next() until none is
  // left. A failure names the peer and says what happened to it.
  Status step(const PollSet& set);
  Result<std::optional<Frame>> next();
  // Adds the peer's name to a protocol error; fails as step() does.
  Status protocolError(const Status& why) const;
  // After step() has failed because the peer was silent, declareDead() tells the peer that this member has given it up.
  // The peer may still receive, or run again later. Returns the failure with the member's name, as it was sent.
  bool silent() const { return peerSilent_; }
  // True if two heartbeats of the peer are missing: it will soon count as silent.
  bool missedHeartbeats() const { return Deadline::Clock::now() > lastReceived_ + 2 * heartbeatInterval_; }
  Status declareDead(const Status& why, const std::string& member);
  // Sends the failure before this connection is dropped.
  void sendFailure(const Status& failure);

  bool flushed() const { return !socket_->wantsWrite(); }
  std::unique_ptr<ControlSocket> takeSocket() { return std::move(socket_); }

 private:
  Status ended(const Status& why) const;
  Status checkSilence(TimePoint now);
  bool throttled() const;

  std::unique_ptr<ControlSocket> socket_;
  std::string name_;
  std::chrono::milliseconds silenceTimeout_, heartbeatInterval_;
  uint32_t peerTimeoutMs_;
  TimePoint lastReceived_, lastSent_, lastStep_;
  Heartbeat ownHeartbeat_, peerHeartbeat_;
  bool readable_ = false;
  bool peerSilent_ = false;    // the peer was silent for too long
  size_t framesInPeriod_ = 0;  // frames received in the current period
  size_t bytesInPeriod_ = 0;   // bytes received in it
  TimePoint periodStart_;      // its start
};

}  // namespace bps
