// LocalProgram computes, from the plan, the steps of each rank of a machine for every chunk of a
// buffer. A LocalProgram is immutable, so any thread may read it. The data path (src/comm/local)
// executes the steps, and the planner adds up the copies in the steps. Predictions and counters
// therefore come from one list.
//
// A chunk passes its stages in the same order on all ranks. In the first stage, every rank puts its
// contribution into its area of the shared memory, where other ranks read it. In the next stages,
// different ranks add up different parts in parallel. The network transfer comes before the last
// stage. In the last stage, every rank takes the sum. A rank may have no step in a stage.
//
// If a chunk is small and all buffers are in host memory, every rank adds up the whole chunk in the
// last stage, in the same order. This is faster than a second wait for the other ranks. The stages
// between the first and the last are then empty.
//
// The ranks of the machine share memory: an area for each rank and an area for the sum. Each area
// is as large as the chunk, and a byte has the same offset in all areas. A rank's area holds the
// rank's contribution if other ranks add that contribution. It holds the rank's partial sums if
// other ranks continue with them. During one chunk, only the network transfer overwrites data in an
// area.
//
// Order of summation:
// - cpu_assisted adds the ranks of a group in rank order with one rounding, then the groups in
//   order with one rounding. If every group has one rank, cpu_assisted adds all ranks in rank order
//   with one rounding.
// - scatter and rooted add all ranks in rank order with one rounding.
// - flat_ring adds the ranks in the ring's order, from the rank after the part's driver to the
//   driver. Every rank but the first rounds. scatter and rooted do the same if NVLinks connect the
//   GPUs only along a ring.
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
  static constexpr size_t kOwn = ~size_t{0};         // this rank's contribution, in the rank's own memory
  static constexpr size_t kSumArea = kOwn - 1;       // the sum that all ranks take
  static constexpr size_t kPartialSum = ~size_t{0};  // a sum rather than one rank's contribution

  size_t area = kOwn;  // the rank whose area holds the data, or kOwn, or kSumArea
  // The rank whose contribution this source is, or kPartialSum. If the call has a scalar, a
  // contribution has not been multiplied by the scalar yet.
  size_t contributor = kPartialSum;
  bool operator==(const Source&) const = default;
};

// One pass over a part of the chunk. The pass adds the sources in this order and rounds the sum
// once. A single source is copied.
struct Piece {
  enum class Target : uint8_t { kOwnArea, kSumArea, kResult };  // kResult is the rank's own memory

  ByteRange part;
  std::vector<Source> sources;
  Target target = Target::kOwnArea;
  bool completes = false;  // true if the result contains the contributions of all ranks of the machine
};

// One rank's work in a stage, and the copies that the hardware makes for this work.
struct Step {
  std::vector<Piece> pieces;
  std::vector<Copy> copies;
};

class LocalProgram {
 public:
  explicit LocalProgram(LocalPlan plan);

  const LocalPlan& plan() const { return plan_; }
  size_t ranks() const { return plan_.placement.ranks.size(); }
  // Returns the number of stages. The ranks put their contributions in stage 0 and take the sum in
  // the last stage.
  size_t stages() const { return stages_; }
  // True if a rank begins `stage` only after every rank has finished the previous stage. False if
  // the rank waits only for its ring predecessor, which passes a partial sum to it. `stage` must
  // not be the first stage, nor the last stage of a call that uses the network.
  bool waitsForAll(size_t stage) const { return !alongRing_ || stage == 1 || stage + 1 == stages_; }
  bool addsAlongRing() const { return alongRing_; }
  size_t predecessor(size_t rank) const { return predecessors_[rank]; }
  // True if every rank adds up all of a chunk of `bytes` bytes for itself. The stages between the
  // first and the last are then empty.
  bool isReducedRedundantly(uint64_t bytes) const { return maxRedundantBytes_ > 0 && bytes <= maxRedundantBytes_; }

  // Returns the steps of `rank` for a chunk of `bytes` bytes, by stage.
  std::vector<Step> steps(size_t rank, uint64_t bytes, uint64_t unit) const;

 private:
  LocalPlan plan_;
  bool alongRing_ = false;
  size_t stages_ = 0;
  uint64_t maxRedundantBytes_ = 0;
  std::vector<size_t> predecessors_, successors_, positions_;  // each rank's neighbours and position in the ring
};

// Returns the network copies of `bytes` bytes if every byte causes `through` bytes through the
// NICs, each way.
std::vector<Copy> networkCopies(const LocalPlan& plan, uint64_t bytes, uint64_t unit, double through);

// Returns the network copies of one assignment's part, for which the NIC moves `moved` bytes each
// way.
std::vector<Copy> networkCopies(const LocalPlan& plan, const NicAssignment& assignment, uint64_t moved);

// Returns all copies of one all-reduce of `bytes` bytes; `unit` is the element size in bytes.
std::vector<Copy> copiesOf(const LocalPlan& plan, uint64_t bytes, uint64_t unit);

}  // namespace bps
