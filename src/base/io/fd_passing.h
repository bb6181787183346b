// Passes file descriptors to another process over a Unix socket, together with a message. Any
// thread may call these functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps {

// The kernel passes at most this many descriptors with one message.
constexpr size_t kMaxPassedFds = 253;

// Makes one sendmsg call with `flags`. Fails if the socket does not take the whole message. `what`
// begins the error text.
Status sendFds(int socket, std::span<const uint8_t> bytes, std::span<const int> fds, const std::string& what,
               int flags = 0);

struct FdMessage {
  size_t bytes = 0;
  // True if no message has arrived. If nothingYet is false, 0 bytes mean that the peer has hung up.
  bool nothingYet = false;
  bool truncated = false;  // the message or its descriptors did not fit
  std::vector<UniqueFd> fds;
};
// Makes one recvmsg call with `flags`. The kernel closes the received descriptors after the first
// `maxFds`.
Result<FdMessage> receiveFds(int socket, std::span<uint8_t> room, size_t maxFds, int flags = 0);

}  // namespace bps
