// ServerCall: a connection to a server such as a hub has, with one question at a time. Every failure says what stands
// in the way: nobody listens, no way there, no answer, another key or version, not a bps-server. Belongs to one thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/socket.h"
#include "src/control/link/link.h"

namespace bps {

class ServerCall {
 public:
  // `patience` bounds the connection, and each answer that is waited for.
  static Result<std::unique_ptr<ServerCall>> open(const std::vector<Address>& addresses, const Credentials& credentials,
                                                  std::chrono::milliseconds patience);

  uint64_t job() const { return link_.job(); }
  Deadline patience() const { return Deadline::in(patience_); }

  template <ControlMessage T>
  void say(const T& message) {
    link_.send(message);
  }
  void say(MessageType type) { link_.send(type); }
  // The next message, which must be of this kind; what the server says of a failure is one here.
  template <ControlMessage T>
  Result<T> hear() {
    const Frame frame = BPS_TRY(next(T::kType));
    return decode<T>(frame.payload);
  }
  // Keeps the connection alive while this side is busy with something else; fails when the server has ended it.
  Status look();
  // Says goodbye, and waits a moment until the server has heard it.
  void leave();

 private:
  ServerCall(Peer peer, uint32_t timeoutMs, std::chrono::milliseconds patience)
      : link_(std::move(peer), "it", timeoutMs), patience_(patience) {}
  Result<Frame> next(MessageType expected);
  Status turn(PollSet::TimePoint until);

  Link link_;
  std::chrono::milliseconds patience_;
  std::vector<Frame> came_;
};

}  // namespace bps
