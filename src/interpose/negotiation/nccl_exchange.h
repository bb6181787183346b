// NcclExchange: all-gathers a few bytes from every rank of an NCCL communicator over this communicator itself.
//
// All ranks must call the functions in the same order. Like the first call of NCCL, a wait has no time limit. A wait
// ends early if the communicator fails or if another thread aborts it. An NcclExchange belongs to the negotiation, and
// only one thread uses it.
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
  // `recordBytes` is the maximum size of a record in gather().
  static Result<NcclExchange> open(Shadow& shadow, int device, size_t recordBytes);

  // Returns one record of each rank, in rank order. The records of all ranks must have the same size.
  Result<std::vector<Blob>> gather(const Blob& mine);
  // The seconds that one all-reduce of `bytes` takes with NCCL or with bps. The all-reduce uses the memory of the
  // NcclExchange.
  Result<double> timeNccl(size_t bytes);
  Result<double> timeBps(size_t bytes, const NegotiatedTerms& terms);
  // Waits until NCCL has carried out its calls on the communicator.
  Status waitIdle() { return wait(nullptr); }
  void markNonBlocking() { shadow_.markNonBlocking(); }
  // The bytes of the largest all-reduce that can be timed.
  size_t maxProbeBytes() const { return memory_->size(); }

 private:
  NcclExchange(Shadow& shadow, std::unique_ptr<ScratchMemory> memory) : shadow_(shadow), memory_(std::move(memory)) {}
  // Waits until the stream is idle. If `comm` is not null, a failure of `comm` also ends the wait.
  Status wait(bpsComm_t comm);
  Status checkNccl(ncclResult_t called) const;

  Shadow& shadow_;
  std::unique_ptr<ScratchMemory> memory_;
  bool warned_ = false;
};

}  // namespace bps::interpose
