// MessageTracker: how much of each message under way has passed, while its slices pass through several sockets in any
// order.
#pragma once
#include "net_plugin/comm.h"
#include "net_plugin/stream/frame.h"

namespace bps::plugin::stream {

class MessageTracker {
 public:
  // A slice of a message under way begins to pass. False: it contradicts what was said of that message before.
  [[nodiscard]] bool begin(const Slice& slice);
  // One that has begun is through.
  void finish(const Slice& slice) { --at(slice.number).slicesInFlight; }
  bool hasStarted(uint64_t number) const { return at(number).started; }
  bool isComplete(uint64_t number) const {
    const Message& message = at(number);
    return message.started && message.slicesInFlight == 0 && message.startedBytes == message.bytes;
  }
  // The size of a whole message, which is forgotten: its place is another's from now on.
  size_t take(uint64_t number);

 private:
  struct Message {
    size_t bytes = 0;
    size_t startedBytes = 0;    // bytes of the slices that have begun to pass
    size_t slicesInFlight = 0;  // slices of these that are not through
    bool started = false;
  };
  const Message& at(uint64_t number) const { return messages_[number % RequestRing::kCapacity]; }
  Message& at(uint64_t number) { return messages_[number % RequestRing::kCapacity]; }

  std::array<Message, RequestRing::kCapacity> messages_;
};

}  // namespace bps::plugin::stream
