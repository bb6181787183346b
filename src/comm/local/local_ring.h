// LocalRing: the memory that the ranks of one machine share: a ring of slots, each with one chunk's contribution per
// rank and its sum.
//
// Chunks of all calls are numbered on; chunk q lies in slot q % slots. Each number below only grows:
//   contributed(r)   rank r has copied in chunks below it     written by r, read by the leader
//   published        sums below it are in their slots         written by the leader, read by all
//   consumed(r)      rank r has copied out sums below it      written by r, read by all
// A slot is free for chunk q when every rank has consumed chunk q - slots.
//
// Memory ordering: all of these are sequentially consistent. A number is stored after the bytes it speaks of and loaded
// before they are touched. A rank sets asleep and looks at the numbers again before it sleeps; who changes a number
// looks at asleep after it: one of the two always sees the other, so no wake-up is lost.
//
// The memory is an unnamed memfd: it vanishes with the last process that holds it, whatever becomes of them.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "src/base/fd.h"
#include "src/base/status.h"
#include "src/wire/data_header.h"

namespace bps {

struct LocalRingShape {
  uint32_t ranks = 0;
  uint32_t slots = 0;
  uint64_t slotBytes = 0;
};

// What a rank says of the chunk that it copied in.
struct ChunkNote {
  CallInfo call;
  uint64_t bytes = 0;
};

class LocalRing {
 public:
  struct Member {
    alignas(64) std::atomic<uint64_t> contributed{0};
    std::atomic<uint64_t> consumed{0};
    std::atomic<uint32_t> asleep{0};
    std::atomic<uint32_t> left{0};  // has said goodbye: contributed() will not grow any more
  };

  // The leader makes the memory; the others map what they are given. Fails when the sizes do not agree.
  static Result<LocalRing> create(const LocalRingShape& shape);
  static Result<LocalRing> attach(const LocalRingShape& shape, UniqueFd memory);
  LocalRing(LocalRing&& other) noexcept;
  LocalRing& operator=(LocalRing&&) = delete;
  ~LocalRing();

  const LocalRingShape& shape() const { return shape_; }
  int fd() const { return fd_.get(); }
  Member& member(uint32_t rank) const { return members_[rank]; }
  std::atomic<uint64_t>& published() const { return *published_; }
  ChunkNote& note(uint64_t chunk, uint32_t rank) const { return notes_[chunk % shape_.slots * shape_.ranks + rank]; }
  uint8_t* contribution(uint64_t chunk, uint32_t rank) const {
    return data_ + (chunk % shape_.slots * (shape_.ranks + 1) + rank) * shape_.slotBytes;
  }
  uint8_t* sum(uint64_t chunk) const { return contribution(chunk, shape_.ranks); }
  // Every rank has consumed the chunk that had this one's slot before.
  bool slotFree(uint64_t chunk) const;

 private:
  LocalRing(const LocalRingShape& shape, UniqueFd fd) : shape_(shape), fd_(std::move(fd)) {}
  Status map();
  size_t bytes() const;

  LocalRingShape shape_;
  UniqueFd fd_;
  uint8_t* base_ = nullptr;
  std::atomic<uint64_t>* published_ = nullptr;
  Member* members_ = nullptr;
  ChunkNote* notes_ = nullptr;
  uint8_t* data_ = nullptr;
};

}  // namespace bps
