// NcclExchange: the ranks of an NCCL communicator show each other a few bytes, over the communicator itself.
//
// All ranks call in the same order. Every wait looks for the communicator's own errors and for the end of the shadow
// (an abort from another thread), but has no limit of its own: NCCL's first call waits for the other ranks just so.
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
  // `recordBytes`: the largest that a rank will ever show.
  static Result<NcclExchange> open(Shadow& shadow, int device, size_t recordBytes);

  // All-gathers one record of each rank, in rank order. Records have the same size on all ranks.
  Result<std::vector<Blob>> gather(const Blob& mine);
  // Time of one all-reduce of `bytes` of this exchange's memory, by NCCL or by bps.
  Result<double> timeNccl(size_t bytes);
  Result<double> timeBps(size_t bytes, const NegotiatedTerms& terms);
  // Until NCCL has carried out what it was asked for.
  Status waitIdle() { return wait(nullptr); }
  void markNonBlocking() { shadow_.markNonBlocking(); }
  // How many bytes can be timed.
  size_t maxProbeBytes() const { return memory_->size(); }

 private:
  NcclExchange(Shadow& shadow, std::unique_ptr<ScratchMemory> memory) : shadow_(shadow), memory_(std::move(memory)) {}
  // Until the queue is empty. `comm`: whose failure ends the wait too, or null.
  Status wait(bpsComm_t comm);
  Status checkNccl(ncclResult_t called) const;

  Shadow& shadow_;
  std::unique_ptr<ScratchMemory> memory_;
  bool warned_ = false;
};

}  // namespace bps::interpose
