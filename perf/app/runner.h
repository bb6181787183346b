// Runner is the interface that bps-perf offers to a workload. It gives a workload one rank's view
// of the communicator, and the few reductions that the ranks need to agree on results.
#pragma once
#include <bps/bps.h>

#include <cstddef>
#include <cstdint>

#include "src/base/status.h"

namespace bps::perf {

class Runner {
 public:
  Runner() = default;
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  virtual ~Runner() = default;

  virtual int rank() const = 0;
  virtual int ranks() const = 0;
  // Returns the number of machines of the communicator. If ranks share a machine, the machine's sum
  // is rounded before it is added to the sums of the other machines.
  virtual int machines() const { return ranks(); }
  // The number of levels of the BCube that joins the machines, or 0. On a BCube a sum is rounded at every level, and
  // the bits of a sum of floats depend on the size of the call.
  virtual int levels() const { return 0; }
  // Queues the call on this rank's stream. Both buffers stay in use until synchronize().
  virtual Status allReduce(const void* send, void* recv, size_t count, bpsDataType_t type, bpsRedOp_t op) = 0;
  // The requests to parameters (bps/params.h). initParameter() blocks; pushPull() is queued as allReduce().
  virtual Status initParameter(uint64_t key, void* data, size_t count, bpsDataType_t type) = 0;
  virtual Status pushPull(uint64_t key, const void* change, void* latest, size_t count, bpsDataType_t type) = 0;
  virtual Status pull(uint64_t key, void* latest, size_t count, bpsDataType_t type) = 0;
  virtual Status pushes(uint64_t key, uint64_t* pushes) = 0;
  virtual Status groupStart() = 0;
  virtual Status groupEnd() = 0;
  virtual Status synchronize() = 0;
  // Every rank must call these two functions in the same order, with no call queued.
  virtual Result<double> maxOverRanks(double value) = 0;
  virtual Result<bool> equalOnAllRanks(uint64_t value) = 0;
};

}  // namespace bps::perf
