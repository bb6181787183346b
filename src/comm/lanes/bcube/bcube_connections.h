// BcubeSender and BcubeReceiver: the two ends of a one-way connection of a BcubePath with a neighbour. They belong to
// the BcubePath and never block.
//
// A slice is what a machine sends to a neighbour in one step of one block (plan/bcube/bcube.h). It travels as two
// messages:
//
//   number of the block u64 | step u8 | data header with the call (wire/data_header.h)          little endian
//   the payload
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>

#include "src/base/status.h"
#include "src/comm/lanes/slot_ring.h"
#include "src/net/message_queue.h"
#include "src/wire/data_header.h"

namespace bps {

struct BcubeSlice {
  uint64_t block = 0;
  uint8_t step = 0;
  CallInfo call;
  const uint8_t* data = nullptr;
  size_t bytes = 0;
};

struct BcubeConnectionShape {
  size_t slots = 0;          // slices in flight
  size_t maxSliceBytes = 0;  // of the payload
  size_t steps = 0;          // steps are below this number
  bool checksum = false;     // every slice carries a checksum of its payload
};

class BcubeSender {
 public:
  static Result<std::unique_ptr<BcubeSender>> create(std::unique_ptr<net::Comm> comm,
                                                     const BcubeConnectionShape& shape);

  // Sends a slice without a copy. Its data must stay valid until done() is greater than the number of this slice, which
  // is the number of slices sent before it. At most `slots` slices are in flight.
  Status send(const BcubeSlice& slice);
  bool step();

  uint64_t sent() const { return sent_; }
  uint64_t done() const { return queue_.done() / 2; }
  bool idle() const { return queue_.idle(); }
  const Status& status() const { return queue_.failure(); }
  net::Comm& comm() { return queue_.comm(); }

 private:
  BcubeSender(std::unique_ptr<net::Comm> comm, bool checksum)
      : checksum_(checksum), queue_(std::move(comm), net::MessageQueue::Direction::kSend) {}

  const bool checksum_;
  SlotRing headers_;  // declared before queue_, whose connection uses this memory
  net::MessageQueue queue_;
  std::deque<std::pair<uint64_t, void*>> registered_;  // slices whose memory is registered for them alone
  uint64_t sent_ = 0;
};

// Receives slices into a ring of slots.
class BcubeReceiver {
 public:
  static Result<std::unique_ptr<BcubeReceiver>> create(std::unique_ptr<net::Comm> comm,
                                                       const BcubeConnectionShape& shape);

  // Receives what has arrived, and returns whether anything moved. After a failure, slices that have arrived stay
  // available.
  bool step();
  // The slices that have arrived and whose slots are not free again. A slice has a number on its connection.
  uint64_t arrived() const { return arrived_; }
  uint64_t oldest() const { return arrived_ - slices_.size(); }
  const BcubeSlice& slice(uint64_t number) const { return slices_[number - oldest()].slice; }
  // The slice is not needed any more. Slots become free in the order of the slices.
  void release(uint64_t number);
  // Sets whether a call waits for the next slice.
  void setNeeded(bool needed);

  const Status& status() const { return failure_; }
  net::Comm& comm() { return queue_.comm(); }

 private:
  struct Arrived {
    BcubeSlice slice;
    bool released = false;
  };
  BcubeReceiver(std::unique_ptr<net::Comm> comm, const BcubeConnectionShape& shape)
      : shape_(shape), queue_(std::move(comm), net::MessageQueue::Direction::kReceive) {}
  Status take();

  const BcubeConnectionShape shape_;
  SlotRing headers_, payloads_;  // declared before queue_, whose connection uses this memory
  net::MessageQueue queue_;
  std::deque<Arrived> slices_;
  uint64_t posted_ = 0, arrived_ = 0;
  Status failure_;
};

}  // namespace bps
