// Link: an authenticated connection with a name and a pulse. Used by ranks, the hub and servers alike.
//
// Sends a heartbeat when it has been quiet for a tenth of the time-out, and fails when the peer has been silent for
// half of it. A loop that did not run for a while (a stopped process) gives its peers the time back: it was not
// listening, so their silence proves nothing. A peer that sends more frames than any peer needs is read at a bounded
// pace, so that it costs the other connections of the loop nothing; TCP then holds it back.
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

  // What the next heartbeats say, and what the peer's last one said.
  void setHeartbeat(const Heartbeat& heartbeat) { ownHeartbeat_ = heartbeat; }
  const Heartbeat& heartbeat() const { return peerHeartbeat_; }

  void watch(PollSet& set) const;
  // Call once per turn: reads if the set says so. Then take frames with next() until it has none.
  // Fails with a text that names the peer and what happened to it.
  Status step(const PollSet& set);
  Result<std::optional<Frame>> next();
  // Both fail like tick(); a frame that is not understood is the peer's fault too.
  Status protocolError(const Status& why) const;
  // After a failure of tick() because the peer was silent: tells the peer that this member has given it up, since it
  // may still hear what it cannot answer, or run again later. Returns the failure with the member's name, as it was
  // told.
  bool silent() const { return peerSilent_; }
  // Two heartbeats of the peer are missing: whether it is silent will soon be known.
  bool missedHeartbeats() const { return Deadline::Clock::now() > lastReceived_ + 2 * heartbeatInterval_; }
  Status declareDead(const Status& why, const std::string& member);
  // The last words before this connection is dropped.
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
  bool peerSilent_ = false;    // the peer, for too long
  size_t framesInPeriod_ = 0;  // frames of the present period
  size_t bytesInPeriod_ = 0;   // and their bytes
  TimePoint periodStart_;      // its beginning
};

}  // namespace bps
