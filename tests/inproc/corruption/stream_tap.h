// StreamTap: flips one bit of the data that a net plugin of this process receives by TCP, below all checks of the
// plugin. This program's recv() and recvmsg() replace libc's. One flip at a time. Any thread.
#pragma once
#include <cstdint>
#include <string>

namespace bps::test {

struct Flip {
  bool done = false;
  // the names of the receiving and the sending thread (logThreadName); empty if unknown
  std::string receiver, sender;
};

// Arms the tap: flips this bit of byte number `byte`, counted over all TCP sockets of the plugin.
void armTap(uint64_t byte, unsigned bit);
// Disarms the tap and returns what it flipped.
Flip disarmTap();

}  // namespace bps::test
