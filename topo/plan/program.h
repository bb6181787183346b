// LocalProgram: what each rank of a machine does with every chunk of a buffer, as its plan says. Pure. The data path
// carries it out (src/comm/local), the planner adds up its copies: what is predicted and what is counted are one list.
//
// A chunk passes stages in the same order on all ranks. First every rank puts what others are to add into its own area;
// then parts are added up, by as many ranks at once as there are parts; the network comes before the last stage; in the
// last one every rank takes the sum. A rank's part of a stage may be empty.
//
// A small chunk in host memory is added up by every rank for itself, in the last stage and in the same order: to wait
// for the others a second time would take longer. The stages between are empty then.
//
// Memory that all ranks of the machine see: an area for each rank and one for the sum, all as large as the chunk, in
// which every byte keeps its offset. In a rank's area lies its contribution where others add it, and what it added up
// itself where others go on with that. Within one chunk nothing in them is written twice, but by the network.
//
// Order of summation. cpu_assisted: the ranks of a group in rank order, one rounding; the groups in order, one
// rounding; groups of one rank each therefore in rank order with one rounding. scatter, rooted: all ranks in rank
// order, one rounding. Along a ring (flat_ring, and the two where NVLinks form nothing but a ring): from the rank after
// the part's owner on, in the ring's order, to the owner; a rounding at every rank but the first. An average is divided
// before the first of these roundings (src/service/round.h).
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
  static constexpr size_t kSumArea = kOwn - 1;       // what all take
  static constexpr size_t kPartialSum = ~size_t{0};  // no single rank's contribution any more

  size_t area = kOwn;  // a rank's, or one of the above
  // Whose contribution it is: it has not been multiplied by its scalar yet, if the call has one.
  size_t contributor = kPartialSum;
  bool operator==(const Source&) const = default;
};

// One pass over a part: its sources are added up in this order and rounded once; a single one is copied.
struct Piece {
  enum class Target : uint8_t { kOwnArea, kSumArea, kResult };  // kResult: this rank's own memory

  ByteRange part;
  std::vector<Source> sources;
  Target target = Target::kOwnArea;
  bool completes = false;  // now all ranks of the machine are in it
};

// One rank's part of a stage, and all that the real machine moves for it.
struct Step {
  std::vector<Piece> pieces;
  std::vector<Copy> copies;
};

class LocalProgram {
 public:
  explicit LocalProgram(LocalPlan plan);

  const LocalPlan& plan() const { return plan_; }
  size_t ranks() const { return plan_.placement.ranks.size(); }
  // The first puts, the last takes.
  size_t stages() const { return stages_; }
  // Whose previous stage must be done before this rank begins its part of the stage: all ranks', or only one's, who
  // then passes something on to it. Not of the first stage; of the last one: when there is no network.
  bool waitsForAll(size_t stage) const { return !alongRing_ || stage == 1 || stage + 1 == stages_; }
  size_t predecessor(size_t rank) const { return predecessors_[rank]; }
  // Every rank adds up all of a chunk of so many bytes. Nobody waits for anything between the first stage and the last.
  bool isReducedRedundantly(uint64_t bytes) const { return maxRedundantBytes_ > 0 && bytes <= maxRedundantBytes_; }

  // What the rank does with a chunk of so many bytes, stage by stage.
  std::vector<Step> steps(size_t rank, uint64_t bytes, uint64_t unit) const;

 private:
  LocalPlan plan_;
  bool alongRing_ = false;
  size_t stages_ = 0;
  uint64_t maxRedundantBytes_ = 0;
  std::vector<size_t> predecessors_, successors_, positions_;  // by rank, in the ring
};

// What the network moves of a chunk in which every byte of the buffer makes `through` bytes, each way.
std::vector<Copy> networkCopies(const LocalPlan& plan, uint64_t bytes, uint64_t unit, double through);

// The same of the part that one of those who drive the NICs has.
std::vector<Copy> networkCopies(const LocalPlan& plan, const NicAssignment& assignment, uint64_t moved);

// Everything that one all-reduce of `bytes` moves, in units of `unit` (the element's size).
std::vector<Copy> copiesOf(const LocalPlan& plan, uint64_t bytes, uint64_t unit);
// The same when every rank copies its whole buffer to host memory and back and the CPU does all the rest.
std::vector<Copy> bruteForceCopies(const LocalPlan& plan, uint64_t bytes, uint64_t unit);

}  // namespace bps
