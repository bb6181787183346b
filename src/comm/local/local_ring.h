// LocalRing: the memory that the ranks of one machine share: a ring of slots, each with one chunk's areas
// (topo/plan/program.h): one per rank and one for the sum; and how far each rank is.
//
// Chunks of all calls are numbered on; chunk q lies in slot q % slots. Each number below only grows:
//   submitted(r)   rank r has been asked for chunks below it, and has its contributions at hand   written by r
//   done(r, s)     rank r has done stage s of chunks below it                 written by r
// Of a rank that drives a rail (lanes/rails.h):
//   awaited(r)     the first chunk of this rail whose sum over the machine r has not seen yet, plus 1; 0: none
//   published(r)   of chunks below it, what this rail carries of their final sums is in the sum areas
// Both are written by r and grow, but for awaited() of 0.
// A slot is free for chunk q when every rank has done the last stage of chunk q - slots.
//
// Memory ordering: all of these are sequentially consistent, but for stores that nobody is woken for, or not before a
// later one of the same rank: release. A number is stored after the bytes it speaks of and loaded before they are
// touched. A rank sets asleep and looks at the numbers again before it sleeps; who changes a number looks at asleep
// after it: one of the two always sees the other. All numbers are there for all to see, so who changes one can tell
// whom that lets go on, and wakes nobody else; where several changes together let a rank go on, the last of them sees
// all others.
//
// The memory is an unnamed memfd of sealed size: it vanishes with the last process that holds it, whatever becomes of
// them. Every process of the machine's ranks can write all of it. So a rank keeps its own numbers to itself and never
// reads them here, and takes another's for no more than how far that one says it is.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "src/base/fd.h"
#include "src/base/status.h"
#include "src/wire/data_header.h"

namespace bps {

// What one rank writes and others poll lies so far from what others write: processors fetch cache lines in pairs.
inline constexpr size_t kFalseSharingBytes = 128;

struct LocalRingShape {
  uint32_t ranks = 0;
  uint32_t slots = 0;
  uint64_t slotBytes = 0;
  uint32_t stages = 0;
  uint32_t counters = 0;  // of each rank, for the bytes that it moves over links
};

// What a rank says of the chunk in its first stage.
struct alignas(kFalseSharingBytes) ChunkInfo {
  CallInfo call;
  uint64_t bytes = 0;
};

class LocalRing {
 public:
  struct RankState {
    alignas(kFalseSharingBytes) std::atomic<uint64_t> submitted{0};
    std::atomic<uint64_t> awaited{0}, published{0};
    alignas(kFalseSharingBytes) std::atomic<uint32_t> asleep{
        0};                         // these two change rarely, and others look at them all the time
    std::atomic<uint32_t> left{0};  // has said goodbye: submitted() will not grow any more
  };

  // The leader makes the memory; the others map what they are given. Fails when the sizes do not agree.
  static Result<LocalRing> create(const LocalRingShape& shape);
  static Result<LocalRing> attach(const LocalRingShape& shape, UniqueFd memory);
  LocalRing(LocalRing&& other) noexcept;
  LocalRing& operator=(LocalRing&&) = delete;
  ~LocalRing();

  const LocalRingShape& shape() const { return shape_; }
  int fd() const { return fd_.get(); }
  RankState& rankState(uint32_t rank) const { return at<RankState>(rankStatesOffset_)[rank]; }
  std::atomic<uint64_t>& done(uint32_t rank, size_t stage) const {
    return at<Number>(doneOffset_)[rank * doneRowLength_ +
                                   (stage + 1 == shape_.stages ? 0 : kFalseSharingBytes / sizeof(Number) + stage)];
  }
  // Belong to their rank; others may read them at any time.
  std::atomic<uint64_t>* counters(uint32_t rank) const {
    return at<Number>(countersOffset_) + rank * counterRowLength_;
  }
  ChunkInfo& chunkInfo(uint64_t chunk, uint32_t rank) const {
    return at<ChunkInfo>(chunkInfosOffset_)[chunk % shape_.slots * shape_.ranks + rank];
  }
  uint8_t* area(uint64_t chunk, size_t rank) const {
    return base_ + dataOffset_ + (chunk % shape_.slots * (shape_.ranks + 1) + rank) * shape_.slotBytes;
  }
  uint8_t* sum(uint64_t chunk) const { return area(chunk, shape_.ranks); }

  // The first chunk that not every rank has done this stage of, leaving aside one of them if it is named.
  uint64_t doneByAll(size_t stage, uint32_t exceptRank = UINT32_MAX) const {
    return doneRange(stage, exceptRank).least;
  }
  // The same, and how far the rank is that has come furthest.
  struct DoneRange {
    uint64_t least = UINT64_MAX, most = 0;
    uint32_t furthest = 0;
  };
  DoneRange doneRange(size_t stage, uint32_t exceptRank) const;

 private:
  using Number = std::atomic<uint64_t>;

  LocalRing(const LocalRingShape& shape, UniqueFd fd);
  Status map();
  template <class T>
  T* at(size_t offset) const {
    return reinterpret_cast<T*>(base_ + offset);
  }

  LocalRingShape shape_;
  UniqueFd fd_;
  // Numbers of a rank. Of done(), that of the last stage is apart: nobody waits for it as long as slots are free.
  size_t doneRowLength_, counterRowLength_;
  size_t rankStatesOffset_, doneOffset_, countersOffset_, chunkInfosOffset_, dataOffset_, bytes_;
  uint8_t* base_ = nullptr;
};

}  // namespace bps
