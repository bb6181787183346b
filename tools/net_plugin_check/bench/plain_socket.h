// What the plugin is measured against: plain TCP sockets between the two sides, and a loop that does nothing but move
// bytes.
#pragma once
#include <vector>

#include "tools/net_plugin_check/side.h"

namespace bps::check {

// `count` sockets between the sides, on the interface of the device. Blocking calls, while connecting.
Result<std::vector<UniqueFd>> plainSockets(Side& side, size_t count);

// Bytes in one direction through some sockets: each carries the same part, in pieces as large as messages, out of or
// into as many buffers as messages are in flight.
class PlainStream {
 public:
  PlainStream(std::span<const UniqueFd> sockets, bool sends, std::span<uint8_t> memory, size_t piece);
  void start(size_t bytes);
  // Until all is through.
  Status run(Side& side);

 private:
  struct SocketState {
    int fd = -1;
    size_t left = 0, at = 0;  // `at`: in its memory, which it goes round and round
    std::span<uint8_t> memory;
  };
  Result<bool> moveSome(SocketState& state, int flags) const;

  bool sends_;
  size_t piece_;
  std::vector<SocketState> sockets_;
};

// Each in a thread of its own.
Status drivePlain(Side& side, std::span<PlainStream* const> streams);

}  // namespace bps::check
