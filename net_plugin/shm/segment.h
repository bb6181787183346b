// Segment: the mapped shared memory of one connection, with the header and the bytes of the ring. Owns the mapping.
//
// The memory is a memfd without a name, so the kernel frees it when the last process that uses it ends, however it
// ends. The memfd is sealed against changes of its size, so a peer cannot shrink it under the mapping.
#pragma once
#include "net_plugin/shm/ring.h"
#include "src/base/io/fd.h"

namespace bps::plugin::shm {

class Segment {
 public:
  // Large enough that a sleeping end wakes before the ring is full or empty, small enough to stay in a cache.
  static constexpr size_t kRingBytes = size_t{1} << 20;

  // Creates the memory of one connection, initialized to zero.
  static Result<UniqueFd> createMemory();
  // Maps memory from createMemory(), which this or another process called. Rejects memory of another size or without
  // seals. The mapping stays valid after `memory` is closed.
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
