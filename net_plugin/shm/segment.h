// Segment: the memory of one connection, mapped: the ring's header and its bytes.
//
// It is a memfd without a name, so it vanishes with the last process that holds it, whatever becomes of them; sealed
// against changes of its size, so nobody can take the memory away from under a mapping.
#pragma once
#include "net_plugin/shm/ring.h"
#include "src/base/io/fd.h"

namespace bps::plugin::shm {

class Segment {
 public:
  // Large enough that a sleeper has time to wake, small enough to stay in a cache.
  static constexpr size_t kRingBytes = size_t{1} << 20;

  // Memory for one connection, all zero.
  static Result<UniqueFd> createMemory();
  // Maps what makeMemory() made, here or in another process; anything else is refused. The mapping outlives `memory`.
  static Result<Segment> map(int memory);

  Segment(Segment&& other) noexcept : base_(std::exchange(other.base_, nullptr)) {}
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  RingMemory ring() const;

 private:
  explicit Segment(uint8_t* base) : base_(base) {}

  uint8_t* base_;
};

}  // namespace bps::plugin::shm
