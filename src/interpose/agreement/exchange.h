// Exchange: the ranks of an NCCL communicator show each other a few bytes, over the communicator itself.
//
// All ranks call in the same order. Every wait looks for the communicator's own errors and for the end of the shadow
// (an abort from another thread), but has no limit of its own: NCCL's first call waits for the other ranks just so.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "src/base/status.h"
#include "src/interpose/agreement/device.h"
#include "src/interpose/shadow.h"
#include "src/nccl/patience.h"

namespace bps::interpose {

using nccl::Patience;

class Exchange {
 public:
  // `recordBytes`: the largest that a rank will ever show.
  static Result<Exchange> open(Shadow& shadow, int device, size_t recordBytes);

  // Everybody's records in rank order; all ranks give equally many bytes.
  Result<std::vector<uint8_t>> gather(std::span<const uint8_t> mine);
  // Time of one all-reduce of `bytes` of this exchange's memory, by NCCL or by bps.
  Result<double> timeNccl(size_t bytes);
  Result<double> timeBps(size_t bytes, const Terms& terms);
  // Until NCCL has carried out what it was asked for.
  Status settled() { return wait(nullptr); }
  void sawInProgress() { shadow_.sawInProgress(); }
  // How many bytes can be timed.
  size_t room() const { return memory_->size(); }

 private:
  Exchange(Shadow& shadow, std::unique_ptr<DeviceMemory> memory) : shadow_(shadow), memory_(std::move(memory)) {}
  // Until the queue is empty. `comm`: whose failure ends the wait too, or null.
  Status wait(bpsComm_t comm);
  Status checkNccl(ncclResult_t called) const;

  Shadow& shadow_;
  std::unique_ptr<DeviceMemory> memory_;
  bool warned_ = false;
};

}  // namespace bps::interpose
