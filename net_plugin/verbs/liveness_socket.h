// LivenessSocket: the TCP socket that accompanies a verbs connection. It carries queue pair infos
// and notices (net_plugin/verbs/wire.h). A hang-up of the socket shows that the peer is gone.
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
  // Receives a message into `message`, over several calls if necessary. Returns kMessage when the
  // message is complete.
  Event receiveMessage(std::span<uint8_t> message);

 private:
  UniqueFd socket_;
  std::string peer_;
  size_t got_ = 0;  // bytes of the current message that have arrived
};

}  // namespace bps::plugin::verbs
