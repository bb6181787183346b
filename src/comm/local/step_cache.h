// StepCache: caches one rank's steps by chunk size. Most chunks of a call have the same size, and
// computing the steps takes longer than running them. Only the holder of the progress lock
// (progress_engine.h) uses the cache.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "src/comm/local/machine/link_byte_counters.h"
#include "topo/plan/program.h"

namespace bps {

class StepCache {
 public:
  struct Entry {
    std::vector<Piece> pieces;
    std::vector<LinkByteCounters::Increment> increments;
  };
  // `program` and `meter` must outlive the cache.
  StepCache(const LocalProgram& program, const LinkByteCounters& meter, size_t rank)
      : program_(program), meter_(meter), rank_(rank) {}

  // The returned reference is valid until the next call of at().
  const Entry& at(size_t stage, uint64_t bytes, uint64_t unit);

 private:
  const LocalProgram& program_;
  const LinkByteCounters& meter_;
  const size_t rank_;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<Entry>> stagesBySize_;  // by chunk bytes and unit, then by stage
};

}  // namespace bps
