// StepBook: what one rank does with chunks, looked up by their size: most chunks of a call are alike, and to write down
// the steps takes longer than to follow them. Belongs to who has the turn (call_progress.h).
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "src/comm/local/link_meter.h"
#include "topo/plan/program.h"

namespace bps {

class StepBook {
 public:
  struct Entry {
    std::vector<Piece> pieces;
    std::vector<LinkMeter::Charge> charges;
  };
  // Both outlive the book.
  StepBook(const LocalProgram& program, const LinkMeter& meter, size_t rank)
      : program_(program), meter_(meter), rank_(rank) {}

  // Good until the next look-up.
  const Entry& at(size_t stage, uint64_t bytes, uint64_t unit);

 private:
  const LocalProgram& program_;
  const LinkMeter& meter_;
  const size_t rank_;
  std::map<std::pair<uint64_t, uint64_t>, std::vector<Entry>> pages_;  // by bytes and unit, then by stage
};

}  // namespace bps
