// PieceRunner: carries out the steps of one rank. PieceRunner copies and sums pieces of a chunk
// (topo/plan/program.h) between the rank's own buffer and the areas of the local ring. PieceRunner
// also compares the ranks' descriptions of a chunk.
//
// Only the holder of this rank's progress lock (progress_engine.h) calls these functions.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "src/comm/call/chunk_buffers.h"
#include "src/comm/local/local_ring.h"
#include "src/service/round.h"
#include "topo/plan/program.h"

namespace bps {

class PieceRunner {
 public:
  // `ring` must outlive this object. `ranks` is the number of all ranks of the communicator.
  PieceRunner(const LocalRing& ring, uint32_t self, size_t ranks, bool networked, int reduceThreads)
      : ring_(ring),
        self_(self),
        partSum_(ranks, RoundSum::Coverage::kSomeRanks, reduceThreads),
        machineSum_(ranks, networked ? RoundSum::Coverage::kSomeRanks : RoundSum::Coverage::kAllRanks, reduceThreads) {}

  // `own` is the chunk in this rank's buffer. `number` is the number of the chunk in the local
  // ring.
  void run(const Piece& piece, const ChunkView& own, uint64_t number);
  // Fails if the ranks of the machine do not agree on the call of this chunk. Call it only after
  // all ranks of the machine have begun the chunk.
  Status checkCalls(uint64_t number, const std::function<std::string(size_t)>& nameOf);

 private:
  const uint8_t* locate(const Source& source, const uint8_t* own, uint64_t number) const;

  const LocalRing& ring_;
  const uint32_t self_;
  RoundSum partSum_, machineSum_;            // sums over some ranks and over all ranks of the machine
  std::vector<Contribution> contributions_;  // contributions of the current call; kept to avoid allocations
};

}  // namespace bps
