// Cutter: divides each call of a communicator into chunks and assigns the chunks to owners. The
// result depends only on the weights, the limits and the sequence of calls.
//
// Every rank makes one Cutter from the same weights and limits and passes it the same calls. So all
// ranks compute the same cut, and no message describes the cut.
//
// Shares. The buffer of a call is divided into contiguous shares, one per owner, in proportion to
// the weights. The shares are in the order of the owners. Every share consists of complete quanta;
// only the last share can also contain a rest that is smaller than a quantum. If rounding takes
// bytes from an owner, the owner gets a credit for the next call. So in a stream of small calls the
// shares follow the weights on average.
//
// Chunks. Every share is cut into the same number of chunks, which is the number of rounds of the
// call. So the sizes of the chunks are in proportion to the shares. A share that has fewer quanta
// than the call has rounds is cut into fewer chunks. The number of rounds follows from two costs.
// First, a call loses some rounds at its start and end; this cost grows with c, the bytes of a chunk.
// Second, the call pays for each chunk; this cost grows with 1/c. `chunkCostBytes` is the ratio of the
// two costs (tuning.h). Their sum is least for c = sqrt(chunkCostBytes * share).
//
// Window. A NIC never waits if the rounds in flight take at least as long as a chunk needs to come
// back as a sum. This time consists of two rounds, because a round is received while another one is
// answered, and of the latency of a small call. In this latency, `latencyBytes` of a share pass the
// NIC. So the window is 2 + kSpareRounds + latencyBytes / c rounds, rounded up. The spare rounds are for
// chunks that come back late, because TCP divides a NIC unevenly. A call of few rounds has fewer spare
// rounds (kMaxSpareShare). Chunks are so large that kMaxWindow rounds suffice.
//
// Checker. The Cutter chooses the checker of a call without regard to the size of the call. The
// checker receives a message of every call, even of a call with zero elements, so it can detect
// that ranks disagree. Only an owner that has received no more bytes than are due to it can become
// the checker. Among these owners, the checker is the owner to which a complete single-owner call
// will be due first. So the bytes of every owner differ from its due bytes by at most one
// single-owner call.
//
// Paths. If `exchangeChunkBytes` is set, a call of at most `exchangeBytes` takes the exchange path:
// every machine gets the contributions of all machines, and the call has no owner. A call of at
// most `singleOwnerBytes` goes to its checker alone. All other calls are split.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/plan/constants.h"

namespace bps {

struct CutLimits {
  size_t maxChunkBytes = constants::kMaxChunkBytes;     // upper bound for every chunk; it is at least 64
  size_t targetChunkBytes = constants::kMaxChunkBytes;  // upper bound for the chunks of the largest share
  size_t chunkCostBytes = 4U << 10;                     // cost of a chunk, in bytes that the NIC could send instead
  size_t latencyBytes = 0;                              // bytes of one owner's chunks that take as long as a small call
  size_t quantumBytes = constants::kQuantumBytes;       // quantum of calls that have at least kMinLocalQuanta quanta
  size_t singleOwnerBytes = 16U << 10;
  size_t exchangeBytes = 0;
  size_t exchangeChunkBytes = 0;  // upper bound for chunks on the exchange path; if 0, no call takes this path
};

struct ChunkRange {
  size_t offset = 0;  // elements from the start of the buffer
  size_t count = 0;   // elements
};

// The cut of one call.
struct Cut {
  size_t checker = 0;             // index of the owner that gets a message even if its share is empty
  bool usesExchangePath = false;  // true if the machines exchange the call; share[0] then describes it
  size_t rounds = 0;              // largest number of chunks of any owner
  size_t window = 0;              // number of rounds in flight (src/comm/lanes/lane.h)
  std::vector<ChunkRange> share;  // one entry per owner; count is 0 if the owner has no share
  size_t quantum = 1;             // elements; every chunk except the buffer's last is a multiple of the quantum
  std::vector<size_t> chunks;     // chunks of each owner; at most `rounds` and at most the quanta of its share

  // Returns chunk r of an owner, where r < chunks[owner]. A chunk is never empty. The chunks of an
  // owner are in order and make up its share. The sizes of these chunks differ by at most one
  // quantum.
  ChunkRange chunk(size_t owner, size_t r) const;
};

class Cutter {
 public:
  // At least one weight is positive. The sum of all weights is at most 2^40 (see Shares::weights).
  Cutter(std::vector<uint64_t> weights, CutLimits limits);

  // Returns the cut of the next call and updates the credits. For this call, `limits` replaces the
  // limits from the constructor.
  Cut next(size_t count, size_t elementBytes, const CutLimits& limits);
  Cut next(size_t count, size_t elementBytes) { return next(count, elementBytes, limits_); }

  // Sets the weights of the next calls, for the same number of owners, and forgets the calls before.
  void setWeights(std::vector<uint64_t> weights);
  const std::vector<uint64_t>& weights() const { return weights_; }
  // Cuts the next call as if it were the first one.
  void forgetCalls() {
    credit_.assign(credit_.size(), 0);
    largestSingleOwnerCall_ = 1;
  }

 private:
  __extension__ using Int128 = __int128;

  size_t chooseChecker() const;
  std::vector<size_t> divide(size_t count, size_t elementBytes) const;  // elements per owner
  std::vector<size_t> divideByQuanta(size_t count, size_t quantum, size_t elementBytes) const;
  // Writes the shares into `cut` and updates the credit of every owner.
  void assignShares(Cut& cut, const std::vector<size_t>& elements, size_t elementBytes);

  std::vector<uint64_t> weights_;
  Int128 total_ = 0;  // sum of the weights
  CutLimits limits_;
  std::vector<Int128> credit_;         // bytes owed to each owner, times total_; the credits add up to 0
  size_t largestSingleOwnerCall_ = 1;  // bytes
};

}  // namespace bps
