// LivenessSocket: the socket beside a connection. Offers and notices go over it, and its end is the peer's.
#pragma once
#include <string>

#include "net_plugin/verbs/wire.h"
#include "src/base/io/fd.h"

namespace bps::plugin::verbs {

class LivenessSocket {
 public:
  explicit LivenessSocket(UniqueFd socket);

  int fd() const { return socket_.get(); }
  const std::string& peer() const { return peer_; }

  Status sendMessage(std::span<const uint8_t> message) const;
  enum class Event { kNothing, kMessage, kHangup };
  // Fills `message` over as many calls as it takes.
  Event receiveMessage(std::span<uint8_t> message);

 private:
  UniqueFd socket_;
  std::string peer_;
  size_t got_ = 0;  // of the message that is coming
};

}  // namespace bps::plugin::verbs
