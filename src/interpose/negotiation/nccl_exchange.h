// NcclExchange: all-gathers a few bytes of every rank of an NCCL communicator, over the communicator itself.
//
// All ranks call in the same order. Every wait ends with an error of the communicator or with the end of the shadow (an
// abort by another thread), and has no time limit, like NCCL's first call. The negotiation owns it. Threads: one.
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "src/base/io/wire_io.h"
#include "src/base/status.h"
#include "src/interpose/negotiation/scratch_memory.h"
#include "src/interpose/shadow.h"
#include "src/nccl/backoff.h"

namespace bps::interpose {

using nccl::Backoff;

class NcclExchange {
 public:
  // `recordBytes`: the largest record of gather().
  static Result<NcclExchange> open(Shadow& shadow, int device, size_t recordBytes);

  // All-gathers one record of each rank, in rank order. Records have the same size on all ranks.
  Result<std::vector<Blob>> gather(const Blob& mine);
  // Time of one all-reduce of `bytes` of this exchange's memory, by NCCL or by bps.
  Result<double> timeNccl(size_t bytes);
  Result<double> timeBps(size_t bytes, const NegotiatedTerms& terms);
  // Waits until NCCL has carried out its calls.
  Status waitIdle() { return wait(nullptr); }
  void markNonBlocking() { shadow_.markNonBlocking(); }
  // The largest all-reduce that can be timed.
  size_t maxProbeBytes() const { return memory_->size(); }

 private:
  NcclExchange(Shadow& shadow, std::unique_ptr<ScratchMemory> memory) : shadow_(shadow), memory_(std::move(memory)) {}
  // Waits until the stream is idle. A failure of `comm`, unless it is null, ends the wait too.
  Status wait(bpsComm_t comm);
  Status checkNccl(ncclResult_t called) const;

  Shadow& shadow_;
  std::unique_ptr<ScratchMemory> memory_;
  bool warned_ = false;
};

}  // namespace bps::interpose
