// Cutter: divides the calls of a communicator, one after the other, into chunks and their owners. Pure, deterministic.
//
// Every rank owns one Cutter made from the same weights and limits and feeds it the same calls. So all ranks derive the
// same cut, and nothing about it travels.
//
// Shares. A call's buffer is divided into contiguous shares, one per owner in owner order, in proportion to the
// weights. Shares consist of whole quanta; the last one also holds the rest. If rounding withholds bytes from an owner,
// the next call credits them, so a stream of small calls averages to the weights.
//
// Chunks. Every share is cut into the same number of chunks, the rounds of the call: a round is one chunk of every
// owner. Chunk sizes are therefore in proportion to the shares. A share of fewer quanta than rounds has fewer chunks.
// The number of rounds follows from two costs. A call loses about one round at its ends, c bytes of chunk, and pays
// `chunkCostBytes` for each chunk: share * cost / c in all. The sum is least where c = sqrt(cost * share).
//
// Checker. One owner of the call is its checker, chosen before the call is looked at. It hears of every call, even of
// zero elements, and so sees when ranks disagree. The checker is, among the owners that have received no more than
// their due, the one that is first owed a whole single-owner call. So every owner stays within one such call of its
// due.
//
// Paths. A call of at most `exchangeBytes` takes the exchange path if `exchangeMachines` is set: every machine sends it
// to every other, and nobody owns any of it. The machines are then the checkers of all calls, in turn, since servers
// never hear of such calls. A call of at most `singleOwnerBytes` goes whole to its checker. All other calls are split.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/plan/constants.h"

namespace bps {

struct CutLimits {
  size_t maxChunkBytes = constants::kMaxChunkBytes;     // upper bound for every chunk; is itself at least 64
  size_t targetChunkBytes = constants::kMaxChunkBytes;  // upper bound for the chunks of the largest share
  size_t chunkCostBytes = 4U << 10;                     // what one chunk costs, in bytes that the NIC could carry
  size_t quantumBytes = constants::kQuantumBytes;       // unit of the cut for calls of at least kMinLocalQuanta of them
  size_t singleOwnerBytes = 16U << 10;
  size_t exchangeBytes = 0;
  size_t exchangeMachines = 0;  // 0: no call takes the exchange path
};

struct ChunkRange {
  size_t offset = 0;  // elements from the start of the buffer
  size_t count = 0;   // elements
};

// The cut of one call.
struct Cut {
  size_t checker = 0;             // index of the owner that hears of the call in any case
  bool usesExchangePath = false;  // the machines exchange the whole call; it stands as the first owner's share
  size_t rounds = 0;              // largest number of chunks of any owner
  std::vector<ChunkRange> share;  // per owner; count 0: none
  size_t quantum = 1;             // elements; every chunk but the buffer's last is a multiple of it
  std::vector<size_t> chunks;     // per owner: at most `rounds`, at most the quanta of its share

  // Chunk r of an owner, r < chunks[owner]: never empty. Together they are the share, in order; their sizes differ by
  // at most one quantum.
  ChunkRange chunk(size_t owner, size_t r) const;
};

class Cutter {
 public:
  // At least one weight is positive; together they are at most 2^40 (see Shares::weights).
  Cutter(std::vector<uint64_t> weights, CutLimits limits);

  // The cut of the next call; advances the credits. `limits` replaces those of the constructor for this call, except
  // exchangeMachines.
  Cut next(size_t count, size_t elementBytes, const CutLimits& limits);
  Cut next(size_t count, size_t elementBytes) { return next(count, elementBytes, limits_); }

  const std::vector<uint64_t>& weights() const { return weights_; }

 private:
  __extension__ using Int128 = __int128;

  size_t chooseChecker() const;
  std::vector<size_t> divide(size_t count, size_t elementBytes) const;  // elements per owner
  std::vector<size_t> divideByQuanta(size_t count, size_t quantum, size_t elementBytes) const;
  // Gives every owner its elements and updates its credit.
  void assignShares(Cut& cut, const std::vector<size_t>& elements, size_t elementBytes);

  std::vector<uint64_t> weights_;
  Int128 total_ = 0;  // of the weights
  CutLimits limits_;
  uint64_t calls_ = 0;
  std::vector<Int128> credit_;         // bytes x total_ that each owner is owed; the sum is 0
  size_t largestSingleOwnerCall_ = 1;  // bytes
};

}  // namespace bps
