// FusedPosition: the places of the calls of a fused call (plan/fusion.h) in their host streams, and
// the packed copies of their buffers.
//
// start() packs the contributions, complete() unpacks the sums. The fused call has one place in each
// of the streams, and starts when all these streams have reached it.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/comm/call/all_reduce_call.h"

namespace bps {

class FusedPosition final : public StreamPosition {
 public:
  // Enters the calls into their streams. The calls have one type.
  static std::shared_ptr<FusedPosition> enter(std::span<const AllReduceCall> calls,
                                              const std::shared_ptr<StreamWorker>& worker);
  bool mayStart() const override;
  void start() override;
  void complete(const Status& outcome) override;
  const uint8_t* contributions() const { return packed_.get(); }
  uint8_t* sums() const { return packed_.get() + bytes_; }

 private:
  struct Copy {
    const void* contribution = nullptr;
    void* sum = nullptr;
    size_t bytes = 0;
  };
  std::vector<Copy> copies_;  // of each call that is not empty
  std::vector<std::shared_ptr<StreamEntry>> entries_;
  size_t bytes_ = 0;  // of all contributions
  // The contributions, and then the sums. malloc() soon keeps such blocks, whereas page-aligned blocks
  // would be mapped and unmapped for every call.
  std::unique_ptr<uint8_t[]> packed_;
};

}  // namespace bps
