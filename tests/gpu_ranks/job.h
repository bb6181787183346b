// A Job is this rank of a job that bps-run has started, with the rank's bps communicator. Nccl
// holds the functions of the NCCL library.
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

  // Sums floats on a stream of the device. Does not wait.
  void allReduce(const Buffer& buffer, size_t bytes, const Stream& stream) const;
  // Sums in host memory. Waits for the result.
  void allReduceOnHost(void* data, size_t bytes) const;
  // Waits for all ranks.
  void barrier() const;
  // Destroys the communicator after its calls have ended.
  void end();
  bpsResult_t destroy();
  // Aborts the communicator.
  void abort();
  // Copies rank 0's bytes to all ranks.
  void share(void* bytes, size_t size) const;

 private:
  void check(bpsResult_t result, const char* function) const;
  int rank_, ranks_;
  bpsComm_t comm_ = nullptr;
  bpsHostStream_t host_ = nullptr;
};

// NCCL's functions, found by their public names, so that a preload library may replace NCCL. Every
// rank acts as a machine.
struct Nccl {
  Nccl();  // exits with status 77 if NCCL is not installed
  decltype(&ncclGetVersion) getVersion;
  decltype(&ncclGetUniqueId) getUniqueId;
  decltype(&ncclCommInitRank) commInitRank;
  decltype(&ncclCommDestroy) commDestroy;
  decltype(&ncclAllReduce) allReduce;
  decltype(&ncclGetErrorString) errorString;
  void check(ncclResult_t result, const char* function) const;
};

}  // namespace bps::test
