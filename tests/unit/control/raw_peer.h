// Peers of control connections that send only what the test tells them to send.
#pragma once
#include <poll.h>
#include <sys/socket.h>

#include "src/control/link/auth_listener.h"
#include "tests/unit/control/cluster.h"

namespace bps::test {

// Connects to an address. Tries again while nobody listens there, because the hub of a test may start later.
inline UniqueFd connectTo(const Address& address) {
  const Deadline deadline = soon();
  while (true) {
    UniqueFd fd = std::move(startConnect(address)).value();
    pollfd waiting{fd.get(), POLLOUT, 0};
    ::poll(&waiting, 1, 2000);
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != ECONNREFUSED || deadline.passed()) return fd;
    std::this_thread::sleep_for(5ms);
  }
}

inline void pollFor(ControlSocket& socket, short events) {
  pollfd waiting{socket.fd(), events, 0};
  ::poll(&waiting, 1, 20);
}

// Steps a handshake until it ends.
template <class Handshake>
Status finish(Handshake& handshake, double seconds = 3) {
  const Deadline deadline = soon(seconds);
  while (!deadline.passed()) {
    Result<Progress> progress = handshake.step();
    if (!progress.ok()) {
      [[maybe_unused]] const bool flushed = handshake.socket().flush().ok();
      return std::move(progress).status();
    }
    if (std::move(progress).value() == Progress::kDone) return {};
    pollFor(handshake.socket(), POLLIN);
  }
  return {Code::kTimeout, "the handshake does not end"};
}

// Returns the next frame that is not a heartbeat. Returns a frame of type kHeartbeat if no other frame arrives in time.
inline Frame nextFrame(ControlSocket& socket, double seconds = 3) {
  const Deadline deadline = soon(seconds);
  while (!deadline.passed()) {
    [[maybe_unused]] const bool flushed = socket.flush().ok();
    Result<std::optional<Frame>> frame = socket.read();
    if (!frame.ok()) break;
    std::optional<Frame> got = std::move(frame).value();
    if (got && got->header.type != MessageType::kHeartbeat) return std::move(*got);
    if (!got) pollFor(socket, POLLIN);
  }
  return {};
}

// Joins as a rank that then does nothing: it sends no heartbeats, no control operations and no goodbye.
inline Peer joinManually(const Address& hub, const UniqueId& id, uint32_t rank, uint32_t nRanks, uint32_t timeoutMs) {
  ConnectingHandshake handshake(std::make_unique<ControlSocket>(connectTo(hub)), {id.key, true, timeoutMs},
                                Purpose::kJoin, 0);
  const Status status = finish(handshake);
  EXPECT_TRUE(status.ok()) << status.message();
  Join join;
  join.rank = rank;
  join.nRanks = nRanks;
  join.pid = 1234;
  join.hostName = "host7";
  join.hostId = "machine of a fake rank";
  Peer peer = handshake.take();
  peer.socket->queue(join);
  [[maybe_unused]] const bool flushed = peer.socket->flush().ok();
  return peer;
}

}  // namespace bps::test
