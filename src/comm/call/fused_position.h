// FusedPosition: the places of the calls of a fused call (plan/fusion.h) in their host streams, and
// the packed copies of their buffers.
//
// start() packs the contributions, complete() unpacks the sums. Each call keeps its own place in
// its stream. So a stream, and a thread that waits for it, see separate calls that end together.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/memory.h"
#include "src/comm/call/all_reduce_call.h"

namespace bps {

class FusedPosition final : public StreamPosition {
 public:
  // Enters the calls into their streams. The calls have one type.
  static Result<std::shared_ptr<FusedPosition>> enter(std::span<const AllReduceCall> calls,
                                                      const std::shared_ptr<StreamWorker>& worker);
  bool mayStart() const override;
  void start() override;
  void complete(const Status& outcome) override;
  const uint8_t* contributions() const { return packed_.data(); }
  uint8_t* sums() const { return packed_.data() + bytes_; }

 private:
  struct Entry {
    BufferRange reads;
    uint8_t* writes = nullptr;
    std::shared_ptr<StreamEntry> position;
  };
  std::vector<Entry> entries_;
  size_t bytes_ = 0;   // of all contributions
  PageBuffer packed_;  // the contributions, and then the sums
};

}  // namespace bps
