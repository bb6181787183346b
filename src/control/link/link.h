// Link: an authenticated control connection with a name and heartbeats. Ranks, the hub and servers use Links.
//
// A Link sends a heartbeat every tenth of the timeout, and when the wait that it reports changes. A Link fails if its
// peer has been silent for half of the timeout. If the event loop did not run for a while, for example because the
// process was stopped, the silence during this time does not count. A Link limits the rate at which it reads, so that a
// flood of frames from its peer does not slow down other connections. TCP flow control then slows down the peer. Only
// one thread uses a Link.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "src/control/link/handshake.h"
#include "src/control/link/poll_set.h"
#include "src/wire/clock_offset.h"

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

  // setHeartbeat() sets the content of the next heartbeats that this side sends; the next step() sends one if the wait
  // in it has changed. heartbeat() returns the last received heartbeat.
  void setHeartbeat(const Heartbeat& heartbeat) {
    if (!heartbeat.sameWait(ownHeartbeat_)) lastSent_ = {};
    ownHeartbeat_ = heartbeat;
  }
  const Heartbeat& heartbeat() const { return peerHeartbeat_; }
  uint64_t heartbeats() const { return peerHeartbeats_; }  // number of received heartbeats

  // Measures the clock of the peer from now on: several times at once, and later with every heartbeat. Both sides
  // answer requests of the other side at any time.
  void measureClock(std::shared_ptr<ClockOffset> clock);

  void watch(PollSet& set) const;
  // Call step() once per iteration of the event loop. Then call next() until it returns no frame. A failure of step()
  // or next() names the peer and says what happened to this peer.
  Status step(const PollSet& set);
  Result<std::optional<Frame>> next();
  // Returns a failure that names the peer and says how the peer broke the protocol.
  Status protocolError(const Status& why) const;
  // silent() is true if step() has failed because the peer was silent. declareDead() then tells the peer that `member`
  // has given up the peer. A silent peer may still receive frames, or may run again later. declareDead() returns the
  // failure that it has sent, which contains the name of `member`.
  bool silent() const { return peerSilent_; }
  // True if two heartbeats of the peer are missing. The peer will soon count as silent.
  bool missedHeartbeats() const { return Deadline::Clock::now() > lastReceived_ + 2 * heartbeatInterval_; }
  // True if step() or next() has failed because the connection broke.
  bool broken() const { return socket_->broken(); }
  Status declareDead(const Status& why, const std::string& member);
  // Sends the failure to the peer. Call sendFailure() before the connection is closed.
  void sendFailure(const Status& failure);

  bool flushed() const { return !socket_->wantsWrite(); }
  std::unique_ptr<ControlSocket> takeSocket() { return std::move(socket_); }

 private:
  struct Clock {
    std::shared_ptr<ClockOffset> offset;  // null if the clock of the peer is not measured
    int least = 0, most = 0;              // the number of further samples
  };
  Status ended(const Status& why) const;
  Status checkSilence(TimePoint now);
  bool throttled() const;
  Status handleOwn(const Frame& frame);
  void startClockSamples(int least, int most);
  void askForTime();

  std::unique_ptr<ControlSocket> socket_;
  std::string name_;
  std::chrono::milliseconds silenceTimeout_, heartbeatInterval_;
  uint32_t peerTimeoutMs_;
  TimePoint lastReceived_, lastSent_, lastStep_;
  Heartbeat ownHeartbeat_, peerHeartbeat_;
  uint64_t peerHeartbeats_ = 0;
  bool readable_ = false;
  bool peerSilent_ = false;    // the peer was silent for too long
  size_t framesInPeriod_ = 0;  // frames received in the current period
  size_t bytesInPeriod_ = 0;   // bytes received in the current period
  Clock clock_;
  TimePoint periodStart_;  // start of the current period
};

}  // namespace bps
