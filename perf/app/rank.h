// RankCommunicator: one rank of the communicator that bps-perf measures. One thread uses a
// RankCommunicator.
//
// Every failure names the call and includes the library's error text. The destructor aborts a
// communicator that has not been closed, so that after a failure the other ranks end too and do not
// wait.
#pragma once
#include <bps/params.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "perf/app/runner.h"

namespace bps::perf {

class Gpu;
class Watchdog;

class RankCommunicator : public Runner {
 public:
  struct Config {
    int rank = 0, ranks = 1;
    int timeoutSeconds = 0;  // 0: no limit; otherwise a longer wait or start ends the program
    bool defaultStream = false;
  };
  static Result<std::unique_ptr<RankCommunicator>> join(const Config& config, const bpsUniqueId& id);
  // From now on, allReduce() issues its calls on the stream of `gpu`, which must outlive these
  // calls. The reductions by which the ranks agree on values stay in host memory.
  void use(Gpu* gpu) { gpu_ = gpu; }
  // All ranks must call this function. Continues in a communicator of the ranks with the same
  // color, in the same order as before.
  Status split(int color);
  ~RankCommunicator() override;

  int rank() const override { return config_.rank; }
  int ranks() const override { return config_.ranks; }
  int machines() const override { return machines_; }
  int levels() const override;
  Status allReduce(const void* send, void* recv, size_t count, bpsDataType_t type, bpsRedOp_t op) override;
  Status initParameter(uint64_t key, void* data, size_t count, bpsDataType_t type) override;
  Status pushPull(uint64_t key, const void* change, void* latest, size_t count, bpsDataType_t type) override;
  Status pull(uint64_t key, void* latest, size_t count, bpsDataType_t type) override;
  Status pushes(uint64_t key, uint64_t* pushes) override;
  Status groupStart() override;
  Status groupEnd() override;
  Status synchronize() override;
  Result<double> maxOverRanks(double value) override;
  Result<bool> equalOnAllRanks(uint64_t value) override;

  // All ranks must call the functions from here to gather(), with no call queued. Each function
  // waits for its result.
  Status barrier();
  Result<double> allReduceValue(double value, bpsRedOp_t op);
  Result<uint64_t> sumOverRanks(uint64_t value);
  // Replaces each value by the largest value of all ranks.
  Status maxOverRanksInPlace(std::span<double> values) {
    return reduceOnHost(values.data(), values.size_bytes(), bpsFloat64, bpsMax);
  }
  // Gathers the `own` bytes of every rank into `all`, in rank order.
  Status gather(std::span<const uint8_t> own, std::span<uint8_t> all);

  Result<bpsRedOp_t> preMulSum(bpsDataType_t type, uint64_t scalar);
  Status destroyOp(bpsRedOp_t op);
  Status registerBuffer(void* buffer, size_t bytes);
  // Returns the library's facts about the communicator as JSON.
  Result<std::string> describe();
  // Leaves the communicator.
  Status close();

 private:
  class WatchdogScope;
  explicit RankCommunicator(const Config& config);
  Status adoptCommunicator(bpsComm_t comm);
  Status check(const char* call, bpsResult_t result);
  Status reduceOnHost(void* values, size_t bytes, bpsDataType_t type, bpsRedOp_t op);
  Status waitForGpu();
  void abort();

  Config config_;
  int machines_ = 1;
  bpsComm_t comm_ = nullptr;
  bpsHostStream_t stream_ = nullptr;  // null means the default host stream
  Gpu* gpu_ = nullptr;
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace bps::perf
