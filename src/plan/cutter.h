// Cutter: turns the calls of a communicator, one after the other, into chunks and their owners. Pure and deterministic.
//
// Every rank of a communicator owns one Cutter made from the same weights and limits, and feeds it the same calls; so
// all derive the same cut, and nothing travels. A call's buffer is divided into contiguous shares of whole quanta (the
// last one has the rest), one per owner in owner order, in proportion to the weights; what rounding withholds from an
// owner is credited to it in the next call, so a stream of small calls averages to the weights too. So every chunk but
// the last begins and ends at a cache line, and the ranks of a machine can cut it evenly. A share is cut into about the
// same number of chunks for every owner, so chunk sizes are in proportion to the shares, and a round consists of a
// chunk of every owner. Only a share that is small beside the largest has a chunk for every two rounds, for a chunk
// costs the same whatever its size; one of fewer quanta than rounds has fewer; and where numbers near these make chunks
// that fill their packets, they are taken.
//
// One owner is the call's checker, chosen before the call is looked at: it hears of every call, even of zero elements,
// and so sees when ranks disagree. A call of at most `singleOwnerBytes` goes whole to its checker. The choice is, among
// the owners that have had no more than their due, the one that will first be owed a whole eager call: so every owner
// stays within one eager call of its due, on either side, and idle ones take turns.
//
// Where the first `exchangeMachines` owners are the worker machines, few enough to send to each other, a call of at
// most `exchangeBytes` goes from each of them to all, in pieces: nobody owns any of it. Then the machines are checkers
// in turn, since such a call is heard of by all of them and by nobody else.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bps {

struct CutLimits {
  size_t maxChunkBytes = 1U << 20;       // no chunk is larger; at least 64
  size_t targetChunkBytes = 256U << 10;  // what a chunk of the largest share aims at in a large call
  // Smaller calls are cut finer, to keep both directions of every NIC busy, as long as the chunks of a mean share are
  // worth what each of them costs (in bytes that the NIC could carry instead) and not below minChunkBytes, but for
  // packets.
  size_t chunkCostBytes = 4U << 10;
  size_t minChunkBytes = 8U << 10;
  // What a full packet of the network carries, and what of that a chunk's headers take: a packet costs the same however
  // little is in it. There may be a sixth more chunks, to fill theirs, as long as that spares more than the messages,
  // of which there are more then, cost beside their packets. 0: packets do not count.
  size_t packetBytes = 0;
  size_t headerBytes = 0;
  size_t messageCostBytes = 0;
  // Borders of chunks, and of shares, are multiples of this in calls of at least 64 of them, of 64 in smaller ones.
  size_t quantumBytes = 64;
  size_t singleOwnerBytes = 16U << 10;
  size_t exchangeBytes = 0;
  size_t exchangeMachines = 0;  // 0: no call goes direct
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
  size_t largest = 0;             // elements of the largest share
  size_t quantum = 1;             // elements; every chunk but the buffer's last is a multiple of it
  std::vector<size_t> span;       // per owner: rounds that a chunk stands for, about: 1, or 2 if its share is small
  std::vector<size_t> chunks;     // per owner: their number, at most `rounds` nor more than its share has quanta

  // The round of chunk r of an owner, r < chunks[owner]: they are spread evenly over all rounds.
  size_t roundOf(size_t owner, size_t r) const;
  // Chunk r of an owner, r < chunks[owner]: never empty. Together they are the share, in order; their sizes differ by
  // at most one quantum.
  ChunkRange chunk(size_t owner, size_t r) const;
};

class Cutter {
 public:
  // At least one weight is positive; together they are at most 2^40 (see Shares::weights).
  Cutter(std::vector<uint64_t> weights, CutLimits limits);

  // The cut of the next call; advances the credits. Other limits than those of the constructor may hold for a call, all
  // but exchangeMachines.
  Cut next(size_t count, size_t elementBytes, const CutLimits& limits);
  Cut next(size_t count, size_t elementBytes) { return next(count, elementBytes, limits_); }

  const std::vector<uint64_t>& weights() const { return weights_; }

 private:
  __extension__ using Int128 = __int128;

  size_t chooseChecker() const;
  std::vector<size_t> divide(size_t count, size_t elementBytes) const;  // elements per owner
  std::vector<size_t> divideByQuanta(size_t count, size_t quantum, size_t elementBytes) const;

  std::vector<uint64_t> weights_;
  Int128 total_ = 0;  // of the weights
  CutLimits limits_;
  uint64_t calls_ = 0;
  std::vector<Int128> credit_;         // bytes x total_ that each owner is owed; the sum is 0
  size_t largestSingleOwnerCall_ = 1;  // bytes
};

}  // namespace bps
