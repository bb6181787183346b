// StreamTap: flips one bit of the data that a net plugin of this process receives by TCP. The
// plugin's checks see the flipped bit, because this program's recv() and recvmsg() replace those of
// libc. Only one flip is possible at a time. Any thread may use the tap.
#pragma once
#include <cstdint>
#include <string>

namespace bps::test {

struct Flip {
  bool done = false;
  // The names of the receiving and the sending thread, as logThreadName() gives them. A name is
  // empty if it is unknown.
  std::string receiver, sender;
};

// Arms the tap. The tap flips the bit `bit` of the byte number `byte`, counted over all TCP sockets
// of the plugin.
void armTap(uint64_t byte, unsigned bit);
// Disarms the tap and returns what it has flipped.
Flip disarmTap();

}  // namespace bps::test
