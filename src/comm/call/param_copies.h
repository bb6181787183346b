// ParamCopies: for each part of each parameter, the value that this rank has got last from its owner. If the owner is
// lost, the part goes on from the newest copy of all ranks (DataPlane::loseOwner).
//
// Any thread may add a parameter. Only the holder of the progress lock uses the values.
#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cpu_reduce/reduce.h"
#include "src/base/mutex.h"
#include "src/comm/call/collective.h"

namespace bps {

class ParamCopies {
 public:
  struct Copy {
    DataType type = DataType::kFloat32;
    uint32_t owner = 0;          // from the start, see ChunkRef
    uint32_t count = 0;          // elements
    uint64_t ofParameter = 0;    // elements of the whole parameter
    ParamClock clock;            // of `value`
    std::vector<uint8_t> value;  // empty if this rank has none
  };

  // Call add() in the order of the parameters.
  void add(const std::vector<ChunkRef>& chunks, DataType type);
  // Keeps a value, unless a newer one is kept. `value` has the size of the part.
  void keep(const ParamPart& part, const ParamClock& clock, const uint8_t* value);

  using Key = std::pair<uint32_t, uint64_t>;               // parameter and offset in elements
  std::vector<std::pair<Key, const Copy*>> parts() const;  // of all parameters

 private:
  mutable Mutex mutex_;
  uint32_t parameters_ BPS_GUARDED_BY(mutex_) = 0;
  std::map<Key, Copy> copies_ BPS_GUARDED_BY(mutex_);
};

}  // namespace bps
