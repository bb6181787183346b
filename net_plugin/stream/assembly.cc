#include "net_plugin/stream/assembly.h"

#include <utility>

namespace bps::plugin::stream {

bool Assembly::begin(const Slice& slice) {
  Message& message = at(slice.number);
  if (!message.known) message = {.bytes = slice.messageBytes, .known = true};
  if (message.bytes != slice.messageBytes || slice.bytes > message.bytes - message.begun) return false;
  if (slice.bytes == 0 && message.open > 0) return false;  // an empty message has one slice
  message.begun += slice.bytes;
  ++message.open;
  return true;
}

size_t Assembly::take(uint64_t number) { return std::exchange(at(number), Message{}).bytes; }

}  // namespace bps::plugin::stream
