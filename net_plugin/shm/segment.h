// Segment: the mapping of the shared memory of one connection. The memory contains the header and
// the bytes of the ring. The destructor removes the mapping.
//
// The memory is a memfd, which has no name in a file system. The kernel frees the memory when the
// last process that uses it exits or crashes. The memfd is sealed against changes of its size, so a
// peer cannot shrink the memory while it is mapped.
#pragma once
#include "net_plugin/shm/ring.h"
#include "src/base/io/fd.h"

namespace bps::plugin::shm {

class Segment {
 public:
  // The size of the ring is large enough that a sleeping end wakes before the ring is full or
  // empty. The size is small enough that the ring stays in a cache.
  static constexpr size_t kRingBytes = size_t{1} << 20;

  // Creates the memory of one connection, initialized to zero.
  static Result<UniqueFd> createMemory();
  // Maps memory that createMemory() has created in this or another process. Fails if the memory has
  // another size or is not sealed. The mapping stays valid after `memory` is closed.
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
