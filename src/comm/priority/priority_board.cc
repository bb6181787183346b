#include "src/comm/priority/priority_board.h"

namespace bps {

PriorityBoard& PriorityBoard::ofProcess() {
  static PriorityBoard board;
  return board;
}

}  // namespace bps
