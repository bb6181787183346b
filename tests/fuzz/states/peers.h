// Peers for the fuzzers of the control plane's state machines. A peer passes the handshake and then sends frames that
// come from the input.
//
// No time-out ends during a run: time-outs are one hour, and stepOnce() never sleeps.
#pragma once
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "src/control/control_node.h"
#include "src/control/link/auth_listener.h"
#include "tests/fuzz/states/input.h"

namespace bps::fuzz {

inline constexpr uint32_t kTimeoutMs = 3'600'000;
inline constexpr uint64_t kJob = 77;

// Returns a random input to a control operation. Three of four inputs have the number that is due next for their kind.
inline ControlOpInput randomOpInput(Input& input, const std::array<uint32_t, kControlOps>& due) {
  ControlOpInput part;
  part.kind = static_cast<ControlOp>(input.number(kControlOps));
  part.number = input.number(4) > 0 ? due[static_cast<size_t>(part.kind)] : input.any();
  part.blobs = input.blobs();
  return part;
}

inline Address loopback(uint16_t port = 0) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  in.sin_port = htons(port);
  return {reinterpret_cast<const sockaddr*>(&in), sizeof in};
}
// Returns a loopback address with a port that is free now.
inline Address freeAddress() {
  const UniqueFd fd = std::move(listenOn(loopback())).value();
  return std::move(localAddress(fd.get())).value();
}

inline Credentials credentials() {
  Credentials mine;
  mine.key.fill(0x5a);
  mine.timeoutMs = kTimeoutMs;
  return mine;
}

// Makes close() reset the connection, so that no port stays in TIME_WAIT.
inline UniqueFd resetOnClose(UniqueFd fd) {
  const linger reset{1, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
  return fd;
}

// Runs one iteration of a loop that watches and steps `driven`.
template <class Driven>
void stepOnce(Driven& driven) {
  static PollSet set;
  set.clear();
  driven.watch(set);
  set.wakeAt(Deadline::Clock::now());
  require(set.wait().ok());
  driven.step(set);
}

// Connects a peer to the node under test, which `step` drives. Returns null if the node refuses the peer.
template <class Step>
std::unique_ptr<ControlSocket> connectPeer(const Address& where, Purpose purpose, Step step) {
  Result<UniqueFd> fd = startConnect(where);
  if (!fd.ok()) return nullptr;
  ConnectingHandshake handshake(std::make_unique<ControlSocket>(resetOnClose(std::move(fd).value())), credentials(),
                                purpose, 0);
  for (int i = 0; i < 50; ++i) {
    step();
    Result<Progress> progress = handshake.step();
    if (!progress.ok()) return nullptr;
    if (std::move(progress).value() == Progress::kDone) return handshake.take().socket;
  }
  return nullptr;
}

// Accepts a connection from the node under test, which `step` drives. Returns null if the handshake fails.
template <class Step>
std::unique_ptr<ControlSocket> acceptPeer(int listener, Purpose purpose, uint64_t job, Step step) {
  std::optional<AcceptingHandshake> handshake;
  for (int i = 0; i < 50; ++i) {
    step();
    if (!handshake) {
      std::optional<UniqueFd> fd = std::move(acceptFrom(listener)).value();
      if (!fd) continue;
      handshake.emplace(std::make_unique<ControlSocket>(resetOnClose(std::move(*fd))), credentials(), purpose, job);
    }
    Result<Progress> progress = handshake->step();
    if (!progress.ok()) return nullptr;
    if (std::move(progress).value() == Progress::kDone) return handshake->take().socket;
  }
  return nullptr;
}

inline void flush(ControlSocket& socket) { [[maybe_unused]] const bool sent = socket.flush().ok(); }

// Records the events of a control node, and checks that each event is valid in its place.
class CheckedEvents : public ControlNodeEvents {
 public:
  void joined(const Roster& agreed) override {
    require(!roster && failures == 0);
    roster = agreed;
  }
  void answered(ControlOp, Result<std::vector<Blob>> answer) override {
    require(roster && (failures == 0 || !answer.ok()));
    if (answer.ok()) answers.push_back(std::move(answer).value());
  }
  void failed(const Status& why) override {
    require(++failures == 1 && !why.ok());
    failure = why.message();
  }
  void memberLeft(size_t member) override { require(roster && member < roster->members()); }
  void serverEvent(const ServerEvent& event) override { require(roster && event.server < roster->servers.size()); }
  void hubLeft() override { require(roster.has_value()); }
  void leaveDone() override { require(++leavesDone == 1); }

  std::optional<Roster> roster;
  std::vector<std::vector<Blob>> answers;
  std::string failure;
  int failures = 0, leavesDone = 0;
};

}  // namespace bps::fuzz
