// SlotRing: a ring of equal slots in host memory that one connection has registered. The connection
// may access the memory until it closes, so the ring must outlive the connection. The ring belongs
// to the object to which the connection belongs.
#pragma once
#include "src/base/memory.h"
#include "src/net/message_queue.h"

namespace bps {

class SlotRing {
 public:
  Status prepare(net::Comm& comm, size_t slots, size_t slotBytes) {
    slots_ = slots;
    slotBytes_ = slotBytes;
    buffer_ = BPS_TRY(PageBuffer::create(slots * slotBytes));
    registration_ = BPS_TRY(comm.registerMemory(buffer_.data(), buffer_.size()));
    return {};
  }
  // Returns the slot of message `number`. The message that comes `slots` messages later uses the
  // same slot.
  uint8_t* slot(uint64_t number) const { return buffer_.data() + number % slots_ * slotBytes_; }
  net::Message message(uint64_t number, size_t bytes) const { return {slot(number), bytes, registration_}; }

 private:
  PageBuffer buffer_;
  size_t slots_ = 1, slotBytes_ = 0;
  void* registration_ = nullptr;
};

}  // namespace bps
