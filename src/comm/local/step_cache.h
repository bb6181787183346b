// StepCache: what one rank does with chunks, looked up by their size: most chunks of a call are alike, and to write
// down the steps takes longer than to follow them. Belongs to who has the turn (progress_engine.h).
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "src/comm/local/link_byte_counters.h"
#include "topo/plan/program.h"

namespace bps {

class StepCache {
 public:
  struct Entry {
    std::vector<Piece> pieces;
    std::vector<LinkByteCounters::Increment> increments;
  };
  // Both outlive the book.
  StepCache(const LocalProgram& program, const LinkByteCounters& meter, size_t rank)
      : program_(program), meter_(meter), rank_(rank) {}

  // Good until the next look-up.
  const Entry& at(size_t stage, uint64_t bytes, uint64_t unit);

 private:
  const LocalProgram& program_;
  const LinkByteCounters& meter_;
  const size_t rank_;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<Entry>> stagesBySize_;  // by bytes and unit, then by stage
};

}  // namespace bps
