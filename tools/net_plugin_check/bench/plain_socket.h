// PlainStream: the plain transport for TCP. A PlainStream only sends or receives bytes over sockets
// between the two sides.
#pragma once
#include <vector>

#include "tools/net_plugin_check/side.h"

namespace bps::check {

// Connects `count` sockets between the sides, on the network interface of the device. Blocks until
// all sockets are connected.
Result<std::vector<UniqueFd>> plainSockets(Side& side, size_t count);

// Transfers bytes in one direction. Each socket carries an equal number of bytes of each message.
// `memory` has a buffer for each message in flight.
class PlainStream {
 public:
  PlainStream(std::span<const UniqueFd> sockets, bool sends, std::span<uint8_t> memory, size_t piece);
  void start(size_t bytes);
  // Returns as soon as all bytes are transferred.
  Status run(Side& side);

 private:
  struct SocketState {
    int fd = -1;
    size_t left = 0, at = 0;  // `at` is the offset in `memory`, which is a ring
    std::span<uint8_t> memory;
  };
  Result<bool> moveSome(SocketState& state, int flags) const;

  bool sends_;
  size_t piece_;
  std::vector<SocketState> sockets_;
};

// Runs each stream on a separate thread.
Status drivePlain(Side& side, std::span<PlainStream* const> streams);

}  // namespace bps::check
