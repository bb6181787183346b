// LocalRing: the memory that the ranks of one machine share. The memory contains a ring of slots
// and the progress counters of each rank. A slot holds the areas of one chunk
// (topo/plan/program.h): one area per rank and one area for the sum.
//
// The chunks of all calls are numbered consecutively; chunk q uses slot q % slots. Rank r writes its own counters:
//   submitted(r)   r has all chunks below this number, and r's contributions to them are ready
//   done(r, s)     r has done stage s of all chunks below this number
// A rank that drives a rail (plan/rails.h) has two more counters:
//   awaited(r)     1 + the first chunk of this rail whose machine sum r has not seen yet; 0 if none
//   published(r)   all chunks below this number have the final sums of this rail in their sum areas
// All counters only grow, except that awaited() may return to 0.
// A slot is free for chunk q when every rank has done the last stage of chunk q - slots.
//
// Memory ordering: loads and stores are sequentially consistent. A store may use release order only
// if no rank is woken because of it, or if the wake-up follows a later store of the same rank. A
// counter is stored after the bytes that it covers, and loaded before these bytes are accessed. A
// rank sets asleep and then checks the counters again before it sleeps. A rank that changes a
// counter checks asleep afterwards. So at least one of the two ranks sees the store of the other
// rank. Every rank can read all counters. Therefore a rank that changes a counter computes which
// ranks can now continue, and wakes only those ranks. If a rank can continue only after several
// changes, the rank that makes the last change sees all earlier changes.
//
// The memory is an unnamed memfd of sealed size. The kernel frees the memory when the last process
// that maps it ends, even after a crash. Every local rank can write all of this memory. So a rank
// keeps private copies of its own counters and never reads the shared ones. A rank treats the
// counters of another rank only as a claim of that rank about its progress.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include "src/base/io/fd.h"
#include "src/base/status.h"
#include "src/wire/data_header.h"

namespace bps {

// Distance between data of different writers, to avoid false sharing. Processors fetch cache lines
// in pairs, so this distance is two cache lines.
inline constexpr size_t kFalseSharingBytes = 128;

struct LocalRingShape {
  uint32_t ranks = 0;
  uint32_t slots = 0;
  uint64_t slotBytes = 0;
  uint32_t stages = 0;
  uint32_t counters = 0;  // byte counters per rank, see LinkByteCounters
};

// The description of a chunk that each rank writes in the chunk's first stage.
struct alignas(kFalseSharingBytes) ChunkInfo {
  CallInfo call;
  uint64_t bytes = 0;
};

class LocalRing {
 public:
  struct RankState {
    alignas(kFalseSharingBytes) std::atomic<uint64_t> submitted{0};
    std::atomic<uint64_t> awaited{0}, published{0};
    // `asleep` and `left` change rarely, but other ranks read them often.
    alignas(kFalseSharingBytes) std::atomic<uint32_t> asleep{0};
    std::atomic<uint32_t> left{0};  // not 0 if the rank has left; `submitted` then no longer grows
  };

  // The leader creates the memory and the other ranks attach to it. attach() fails if the size is wrong or not sealed.
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
  // Returns the byte counters of a rank. Only that rank writes them; other ranks may read them at
  // any time.
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

  // Returns the number of chunks for which all ranks, except `exceptRank`, have done this stage.
  uint64_t doneByAll(size_t stage, uint32_t exceptRank = UINT32_MAX) const {
    return doneRange(stage, exceptRank).least;
  }
  // The minimum and the maximum of done() over all ranks except `exceptRank`, and a rank that has the maximum.
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
  // Lengths of a rank's rows, in counters. In the row of done() counters, the last stage has
  // separate cache lines, because no rank reads its counter while slots are free.
  size_t doneRowLength_, counterRowLength_;
  size_t rankStatesOffset_, doneOffset_, countersOffset_, chunkInfosOffset_, dataOffset_, bytes_;
  uint8_t* base_ = nullptr;
};

}  // namespace bps
