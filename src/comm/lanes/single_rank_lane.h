// SingleRankLane: the lane of a rank that is alone in its communicator. The sum is the rank's
// contribution, scaled if the operation has a scalar. Only the holder of the progress lock
// (progress_engine.h) uses this lane.
#pragma once
#include <cstring>

#include "src/comm/lanes/lane.h"
#include "src/service/round.h"

namespace bps {

class SingleRankLane final : public Lane {
 public:
  using Lane::Lane;
  Result<bool> step(uint64_t) override {
    bool moved = false;
    while (nextReady()) {
      const Submitted chunk = waiting_.front();
      waiting_.pop_front();
      const ChunkView view = buffers_.view(*chunk.call, chunk.index);
      if (view.call.hasScalar) scaler_.run({{view.call, view.source, view.bytes}}, view.target);
      else if (view.source != view.target && view.bytes > 0) std::memcpy(view.target, view.source, view.bytes);
      buffers_.finished(*chunk.call, chunk.index);
      moved = true;
    }
    return moved;
  }
  bool idle() const override { return waiting_.empty(); }

 private:
  RoundSum scaler_{1, RoundSum::Coverage::kAllRanks, 1};
};

}  // namespace bps
