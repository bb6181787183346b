#include "net_plugin/stream/message_tracker.h"

#include <utility>

namespace bps::plugin::stream {

bool MessageTracker::begin(const Slice& slice) {
  Message& message = at(slice.number);
  if (!message.started) message = {.bytes = slice.messageBytes, .started = true};
  if (message.bytes != slice.messageBytes || slice.bytes > message.bytes - message.startedBytes) return false;
  if (slice.bytes == 0 && message.slicesInFlight > 0) return false;  // an empty message has only one slice
  message.startedBytes += slice.bytes;
  ++message.slicesInFlight;
  return true;
}

size_t MessageTracker::take(uint64_t number) { return std::exchange(at(number), Message{}).bytes; }

}  // namespace bps::plugin::stream
