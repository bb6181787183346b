// LocalProgram: the steps of each rank of a machine for every chunk of a buffer, computed from the plan. Pure and
// immutable, so any thread may read it. The data path (src/comm/local) executes the steps and the planner adds up their
// copies, so predictions and counters come from one list.
//
// A chunk passes its stages in the same order on all ranks. In the first stage every rank puts its contribution into
// its own area, where other ranks read it. In the next stages the parts are added up, by different ranks in parallel.
// The network transfer comes before the last stage. In the last stage every rank takes the sum. A rank may have no step
// in a stage.
//
// If a chunk is small and all buffers are in host memory, every rank adds up the whole chunk in the last stage, in the
// same order. That is faster than a second wait for the other ranks. The stages between are empty.
//
// The ranks of the machine share memory: an area for each rank and one for the sum. Each is as large as the chunk, and
// a byte has the same offset in all of them. A rank's area holds its contribution if others add it, and its partial
// sums if others continue with them. Within one chunk only the network overwrites data in an area.
//
// Order of summation:
// - cpu_assisted: the ranks of a group in rank order with one rounding, then the groups in order with one rounding. If
//   every group has one rank, all ranks are added in rank order with one rounding.
// - scatter, rooted: all ranks in rank order with one rounding.
// - along a ring (flat_ring; scatter and rooted if NVLinks form only a ring): in the ring's order from the rank after
//   the part's owner to the owner, with a rounding at every rank but the first.
// An average is divided before the first of these roundings (src/service/round.h).
#pragma once
#include <cstdint>
#include <vector>

#include "topo/plan/strategy.h"

namespace bps {

struct ByteRange {
  uint64_t begin = 0, end = 0;  // bytes from the start of the chunk
  uint64_t size() const { return end - begin; }
  bool operator==(const ByteRange&) const = default;
};

struct Source {
  static constexpr size_t kOwn = ~size_t{0};         // this rank's contribution, in its own memory
  static constexpr size_t kSumArea = kOwn - 1;       // the sum that all ranks take
  static constexpr size_t kPartialSum = ~size_t{0};  // a sum rather than one rank's contribution

  size_t area = kOwn;  // a rank's area, kOwn or kSumArea
  // The rank whose contribution this is, or kPartialSum. If the call has a scalar, a contribution has not been
  // multiplied by it yet.
  size_t contributor = kPartialSum;
  bool operator==(const Source&) const = default;
};

// One pass over a part. The sources are added in this order and the sum is rounded once. A single source is copied.
struct Piece {
  enum class Target : uint8_t { kOwnArea, kSumArea, kResult };  // kResult: this rank's own memory

  ByteRange part;
  std::vector<Source> sources;
  Target target = Target::kOwnArea;
  bool completes = false;  // the result contains the contributions of all ranks of the machine
};

// One rank's work in a stage, and the copies that the hardware makes for it.
struct Step {
  std::vector<Piece> pieces;
  std::vector<Copy> copies;
};

class LocalProgram {
 public:
  explicit LocalProgram(LocalPlan plan);

  const LocalPlan& plan() const { return plan_; }
  size_t ranks() const { return plan_.placement.ranks.size(); }
  // Stage 0 puts contributions, the last stage takes the sum.
  size_t stages() const { return stages_; }
  // True: a rank begins the stage after every rank has finished the previous one. False: it waits only for its ring
  // predecessor, which passes a partial sum to it. Do not ask for the first stage, nor for the last one if the call
  // uses the network.
  bool waitsForAll(size_t stage) const { return !alongRing_ || stage == 1 || stage + 1 == stages_; }
  size_t predecessor(size_t rank) const { return predecessors_[rank]; }
  // True if every rank adds up the whole of a chunk of `bytes`. There is no wait between the first and the last stage.
  bool isReducedRedundantly(uint64_t bytes) const { return maxRedundantBytes_ > 0 && bytes <= maxRedundantBytes_; }

  // The steps of the rank for a chunk of `bytes`, by stage.
  std::vector<Step> steps(size_t rank, uint64_t bytes, uint64_t unit) const;

 private:
  LocalPlan plan_;
  bool alongRing_ = false;
  size_t stages_ = 0;
  uint64_t maxRedundantBytes_ = 0;
  std::vector<size_t> predecessors_, successors_, positions_;  // by rank, in the ring
};

// The network copies of a chunk if every byte of the buffer causes `through` bytes through the NICs, each way.
std::vector<Copy> networkCopies(const LocalPlan& plan, uint64_t bytes, uint64_t unit, double through);

// The network copies of one assignment's part, which moves `moved` bytes each way.
std::vector<Copy> networkCopies(const LocalPlan& plan, const NicAssignment& assignment, uint64_t moved);

// All copies of one all-reduce of `bytes`; `unit` is the element size in bytes.
std::vector<Copy> copiesOf(const LocalPlan& plan, uint64_t bytes, uint64_t unit);

}  // namespace bps
