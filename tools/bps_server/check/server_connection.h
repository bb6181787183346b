// ServerConnection: a connection to a server like the hub's, with one request at a time. Every
// failure names the likely cause: nobody listens, there is no route, there is no answer, the key or
// version differs, or the peer is not a bps-server. Used by one thread.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/socket.h"
#include "src/control/link/link.h"

namespace bps {

class ServerConnection {
 public:
  // Connects to the server. `answerTimeout` limits the time to connect and the wait for each
  // answer.
  static Result<std::unique_ptr<ServerConnection>> open(const std::vector<Address>& addresses,
                                                        const Credentials& credentials,
                                                        std::chrono::milliseconds answerTimeout);

  uint64_t job() const { return link_.job(); }
  Deadline answerDeadline() const { return Deadline::in(answerTimeout_); }

  template <ControlMessage T>
  void send(const T& message) {
    link_.send(message);
  }
  void send(MessageType type) { link_.send(type); }
  // Returns the next message, which must have this type. If the server sends a failure message,
  // returns that failure.
  template <ControlMessage T>
  Result<T> receive() {
    const Frame frame = BPS_TRY(next(T::kType));
    return decode<T>(frame.payload);
  }
  // Keeps the connection alive while this process does other work. Fails if the server has closed
  // the connection.
  Status keepAlive();
  // Says goodbye. Waits up to one second until the server has received the goodbye.
  void leave();

 private:
  ServerConnection(Peer peer, uint32_t timeoutMs, std::chrono::milliseconds answerTimeout)
      : link_(std::move(peer), "it", timeoutMs), answerTimeout_(answerTimeout) {}
  Result<Frame> next(MessageType expected);
  Status pollUntil(PollSet::TimePoint until);

  Link link_;
  std::chrono::milliseconds answerTimeout_;
  std::vector<Frame> frames_;
};

}  // namespace bps
