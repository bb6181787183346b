// ContributionReceiver: receives the contributions of one machine to one owner into a ring of
// slots, in the order of the chunks. A ContributionReceiver belongs to a SumService and runs on the
// thread of that service.
//
//   released <= arrived <= posted receives <= released + depth
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
    bool checksum = false;    // every chunk carries a checksum
    bool parameters = false;  // every chunk is a part of a parameter
    size_t headerBytes = kDataHeaderBytes;
  };
  static Result<std::unique_ptr<ContributionReceiver>> create(std::unique_ptr<net::Comm> push, const Shape& shape);

  // Receives the contributions that have arrived, and returns whether anything moved. Rounds below
  // `released` no longer need their slots. When the connection ends (by a failure, by a bad header,
  // or because the peer is done), step() fails once. Contributions that have arrived stay
  // available.
  Result<bool> step(uint64_t released);
  uint64_t arrived() const { return arrived_; }
  uint64_t bytesReceived() const { return bytesReceived_; }  // of payloads
  // Returns the contribution to a round. The round must have arrived and must not be released.
  const Contribution& contribution(uint64_t round) const { return contributions_[round % shape_.depth]; }

  net::Comm& comm() { return queue_.comm(); }

 private:
  ContributionReceiver(std::unique_ptr<net::Comm> push, const Shape& shape);
  uint8_t* slot(uint64_t round) const { return payloads_.data() + round % shape_.depth * shape_.maxChunkBytes; }
  Status take();

  PageBuffer payloads_, headerBytes_;  // declared before queue_, whose connection uses this memory
  net::MessageQueue queue_;
  Shape shape_;
  void* memory_ = nullptr;
  void* headerMemory_ = nullptr;
  std::vector<Contribution> contributions_;
  CallInfo call_;  // the call of the latest chunk that was the first of its call
  uint64_t posted_ = 0, arrived_ = 0, bytesReceived_ = 0;
  bool closed_ = false;
};

}  // namespace bps
