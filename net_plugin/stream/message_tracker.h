// MessageTracker: counts the transferred bytes of each message in flight. The slices of a message
// may pass through several sockets in any order. A MessageTracker is used by the thread that uses
// the connection.
#pragma once
#include "net_plugin/comm.h"
#include "net_plugin/stream/frame.h"

namespace bps::plugin::stream {

class MessageTracker {
 public:
  // Records that the transfer of a slice begins. Returns false if the slice contradicts earlier
  // slices of its message.
  [[nodiscard]] bool begin(const Slice& slice);
  // Records that the transfer of a slice has ended.
  void finish(const Slice& slice) { --at(slice.number).slicesInFlight; }
  bool hasStarted(uint64_t number) const { return at(number).started; }
  bool isComplete(uint64_t number) const {
    const Message& message = at(number);
    return message.started && message.slicesInFlight == 0 && message.startedBytes == message.bytes;
  }
  // Returns the size of a complete message and removes the message, so that a later message can use
  // its entry.
  size_t take(uint64_t number);

 private:
  struct Message {
    size_t bytes = 0;
    size_t startedBytes = 0;    // bytes of all slices that have begun
    size_t slicesInFlight = 0;  // slices that have begun and not finished
    bool started = false;
  };
  const Message& at(uint64_t number) const { return messages_[number % RequestRing::kCapacity]; }
  Message& at(uint64_t number) { return messages_[number % RequestRing::kCapacity]; }

  std::array<Message, RequestRing::kCapacity> messages_;
};

}  // namespace bps::plugin::stream
