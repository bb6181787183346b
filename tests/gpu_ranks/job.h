// Job: this rank among those that bps-run has started, joined by a communicator of bps; and NCCL, where it is
// installed.
#pragma once
#include <cstddef>

#include "bps/bps.h"
#include "src/interpose/nccl/exported.h"
#include "tests/gpu_ranks/device_buffer.h"

namespace bps::test {

class Job {
 public:
  Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;
  ~Job();
  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  bpsComm_t comm() const { return comm_; }
  bpsHostStream_t hostStream() const { return host_; }

  // Sums of floats. On a stream of the device: does not wait.
  void allReduce(const Buffer& buffer, size_t bytes, const Stream& stream) const;
  // In host memory: waits.
  void allReduceOnHost(void* data, size_t bytes) const;
  // Waits for all.
  void barrier() const;
  // Ends the communicator, once its calls have ended.
  void end();
  bpsResult_t destroy();
  // Ends it at once.
  void abort();
  // Rank 0's bytes, on all.
  void share(void* bytes, size_t size) const;

 private:
  void check(bpsResult_t result, const char* function) const;
  int rank_, ranks_;
  bpsComm_t comm_ = nullptr;
  bpsHostStream_t host_ = nullptr;
};

// NCCL by its public names: a preload library that stands in front of it is used. Every rank passes for a machine.
struct Nccl {
  Nccl();  // exits with 77 where there is none
  decltype(&ncclGetVersion) getVersion;
  decltype(&ncclGetUniqueId) getUniqueId;
  decltype(&ncclCommInitRank) commInitRank;
  decltype(&ncclCommDestroy) commDestroy;
  decltype(&ncclAllReduce) allReduce;
  decltype(&ncclGetErrorString) errorString;
  void check(ncclResult_t result, const char* function) const;
};

}  // namespace bps::test
