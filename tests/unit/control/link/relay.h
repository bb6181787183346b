// Relay: forwards frames between a hub and a server without knowing the key, and performs one attack.
#pragma once
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "src/base/io/host_lookup.h"
#include "src/wire/control_messages.h"
#include "tests/unit/control/cluster.h"

namespace bps::test {

class Relay {
 public:
  // The attack changes, drops or repeats the server's first frame of type `at`, or adds a forged frame after it.
  enum class Attack { kNothing, kFlip, kDrop, kRepeat, kForge };
  struct Plan {
    Attack act = Attack::kNothing;
    MessageType at = MessageType::kControlOpInput;
  };
  static constexpr const char* kForged = "forged by a process without the key";

  Relay(const std::string& server, Plan plan) : plan_(plan) {
    listener_ = std::move(listenOn(loopback())).value();
    const HostPort where = std::move(parseHostPort(server, 0)).value();
    server_ = std::move(resolve(where, soon())).value().front();
    thread_ = std::jthread([this] { run(); });
  }
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;
  ~Relay() {
    over_ = true;
    thread_.join();
  }
  std::string name() const { return std::move(localAddress(listener_.get())).value().text(); }
  bool acted() const { return acted_; }

 private:
  struct Direction {
    int from, to;
    Blob held{};
    bool sealed = false;
  };

  void run() {
    while (!over_) {
      if (!readable(listener_.get())) continue;
      std::optional<UniqueFd> hub = std::move(acceptFrom(listener_.get())).value();
      if (!hub) continue;
      UniqueFd server = std::move(startConnect(server_)).value();
      pollfd connecting{server.get(), POLLOUT, 0};
      ::poll(&connecting, 1, 2000);
      pass(hub->get(), server.get());
    }
  }
  void pass(int hub, int server) {
    Direction up{hub, server}, down{server, hub};
    while (!over_) {
      pollfd both[] = {{hub, POLLIN, 0}, {server, POLLIN, 0}};
      ::poll(both, 2, 20);
      if (both[0].revents != 0 && !move(up, false)) return;
      if (both[1].revents != 0 && !move(down, true)) return;
    }
  }
  static bool readable(int fd) {
    pollfd waiting{fd, POLLIN, 0};
    return ::poll(&waiting, 1, 20) > 0;
  }

  bool move(Direction& way, bool fromServer) {
    Blob room(1U << 16);
    const ssize_t count = ::recv(way.from, room.data(), room.size(), MSG_DONTWAIT);
    if (count < 0) return errno == EAGAIN;
    if (count == 0) return false;
    way.held.insert(way.held.end(), room.begin(), room.begin() + count);
    for (size_t size = frameSize(way); size != 0; size = frameSize(way)) {
      Blob frame(way.held.begin(), way.held.begin() + static_cast<std::ptrdiff_t>(size));
      way.held.erase(way.held.begin(), way.held.begin() + static_cast<std::ptrdiff_t>(size));
      // Proof is the connecting side's last unencrypted frame. Welcome is the accepting side's last unencrypted frame.
      way.sealed = way.sealed || type(frame) == MessageType::kProof || type(frame) == MessageType::kWelcome;
      if (fromServer && !acted_ && type(frame) == plan_.at) act(frame);
      [[maybe_unused]] const ssize_t sent = ::send(way.to, frame.data(), frame.size(), MSG_NOSIGNAL);
    }
    return true;
  }
  static MessageType type(const Blob& frame) {
    return WireReader(std::span(frame).subspan(sizeof(uint32_t))).get<MessageType>();
  }
  static size_t frameSize(const Direction& way) {
    const size_t header = kFrameHeaderBytes + (way.sealed ? kFrameTagBytes : 0);
    if (way.held.size() < header) return 0;
    const size_t whole = header + WireReader(way.held).get<uint32_t>();
    return way.held.size() >= whole ? whole : 0;
  }

  void act(Blob& frame) {
    if (plan_.act == Attack::kNothing) return;
    acted_ = true;
    const Blob copy = frame;
    if (plan_.act == Attack::kFlip) frame.back() ^= 1;
    if (plan_.act == Attack::kDrop) frame.clear();
    if (plan_.act == Attack::kRepeat) frame.insert(frame.end(), copy.begin(), copy.end());
    if (plan_.act == Attack::kForge) append(frame, copy);
  }
  // Appends a forged failure with the next sequence number, an attack that succeeded against protocol version 7.
  static void append(Blob& frame, const Blob& model) {
    WireReader in(model);
    in.get<uint32_t>();
    in.get<uint16_t>();
    FrameHeader header;
    header.version = in.get<uint16_t>();
    header.type = MessageType::kFailure;
    header.job = in.get<uint64_t>();
    header.sequence = in.get<uint32_t>() + 1;
    const Blob payload = encode(FailureMessage{Code::kRemote, kForged});
    header.bytes = static_cast<uint32_t>(payload.size());
    const auto bytes = encode(header);
    frame.insert(frame.end(), bytes.begin(), bytes.end());
    frame.insert(frame.end(), payload.begin(), payload.end());
  }

  Plan plan_;
  UniqueFd listener_;
  Address server_;
  std::atomic<bool> over_{false}, acted_{false};
  std::jthread thread_;
};

}  // namespace bps::test
