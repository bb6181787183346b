// ContributionReceiver: receives the contributions of one machine to one owner into a ring of slots, in lane order. The
// SumService owns it; belongs to its thread.
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

  // Receives what has arrived; rounds below `released` no longer need their slots. True if anything moved. At the end
  // of the connection (a failure, a bad header, or the peer is done) it fails once, and keeps the contributions that
  // have arrived.
  Result<bool> step(uint64_t released);
  uint64_t arrived() const { return arrived_; }
  // The contribution to a round that has arrived and is not released.
  const Contribution& contribution(uint64_t round) const { return contributions_[round % shape_.depth]; }

  net::Comm& comm() { return queue_.comm(); }

 private:
  ContributionReceiver(std::unique_ptr<net::Comm> push, const Shape& shape);
  uint8_t* slot(uint64_t round) const { return payloads_.data() + round % shape_.depth * shape_.maxChunkBytes; }
  Status take();

  PageBuffer payloads_, headerBytes_;  // declared before the connection, which uses them until it closes
  net::MessageQueue queue_;
  Shape shape_;
  void* memory_ = nullptr;
  void* headerMemory_ = nullptr;
  std::vector<Contribution> contributions_;
  CallInfo call_;  // of the latest chunk that was the first of its call
  uint64_t posted_ = 0, arrived_ = 0;
  bool closed_ = false;
};

}  // namespace bps
