// ContributionReceiver: the contributions of one machine to one owner, received into a ring of slots in lane order.
//
//   posted (receives are waiting) >= arrived >= released;  posted - released <= depth
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/memory.h"
#include "src/base/status.h"
#include "src/net/message_queue.h"
#include "src/service/round.h"

namespace bps {

class ContributionReceiver {
 public:
  struct Shape {
    size_t depth = 0, maxChunkBytes = 0;
    bool checksum = false;  // every chunk has one
  };
  static Result<std::unique_ptr<ContributionReceiver>> create(std::unique_ptr<net::Comm> push, const Shape& shape);

  // Receives what has come; rounds below `released` no longer need their slots. True when anything moved. When the
  // connection ends, by failure, by a bad header or because the peer is done, says so once and then keeps what had
  // arrived.
  Result<bool> step(uint64_t released);
  uint64_t arrived() const { return arrived_; }
  // To a round that has arrived and is not released.
  const Contribution& contribution(uint64_t round) const { return contributions_[round % shape_.depth]; }

  net::Comm& comm() { return queue_.comm(); }

 private:
  ContributionReceiver(std::unique_ptr<net::Comm> push, const Shape& shape);
  uint8_t* slot(uint64_t round) const { return payloads_.data() + round % shape_.depth * shape_.maxChunkBytes; }
  Status take();

  PageBuffer payloads_, headerBytes_;  // before the connection, which touches them to its end
  net::MessageQueue queue_;
  Shape shape_;
  void* memory_ = nullptr;
  void* headerMemory_ = nullptr;
  std::vector<Contribution> contributions_;
  CallInfo call_;  // of the latest first chunk
  uint64_t posted_ = 0, arrived_ = 0;
  bool closed_ = false;
};

}  // namespace bps
