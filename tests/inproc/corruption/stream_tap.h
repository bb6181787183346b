// StreamTap: turns over one bit of what a net plugin of this process receives by TCP, below all that the plugin checks:
// this program's recv() and recvmsg() stand before libc's. Only one at a time. Any thread.
#pragma once
#include <cstdint>
#include <string>

namespace bps::test {

struct Flip {
  bool done = false;
  // Who received the byte and who had sent it, as their threads are called (logThreadName); empty: not known.
  std::string receiver, sender;
};

// From now on: turns over this bit of the byte with this number, counted over all TCP sockets of the plugin.
void armTap(uint64_t byte, unsigned bit);
// Ends it; what it did.
Flip disarmTap();

}  // namespace bps::test
