// RankCommunicator: one rank of the communicator, as bps-perf uses it. One thread uses it.
//
// Every failure names the call and includes the library's error text. After a failure the destructor aborts the
// communicator, so that the other ranks end too and do not wait.
#pragma once
#include <bps/bps.h>

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
    int timeoutSeconds = 0;  // 0: none; else a longer wait, including the start, ends the program
    bool defaultStream = false;
  };
  static Result<std::unique_ptr<RankCommunicator>> join(const Config& config, const bpsUniqueId& id);
  // From now on allReduce() issues its calls on the stream of this device, which must outlive that use. The ranks' own
  // agreements stay on the host.
  void use(Gpu* gpu) { gpu_ = gpu; }
  // Collective: continues in a communicator of the ranks with the same color, in the same order as before.
  Status split(int color);
  ~RankCommunicator() override;

  int rank() const override { return config_.rank; }
  int ranks() const override { return config_.ranks; }
  int machines() const override { return machines_; }
  Status allReduce(const void* send, void* recv, size_t count, bpsDataType_t type, bpsRedOp_t op) override;
  Status groupStart() override;
  Status groupEnd() override;
  Status synchronize() override;
  Result<double> maxOverRanks(double value) override;
  Result<bool> equalOnAllRanks(uint64_t value) override;

  // Collective. Nothing may be queued; these calls synchronize.
  Status barrier();
  Result<double> allReduceValue(double value, bpsRedOp_t op);
  Result<uint64_t> sumOverRanks(uint64_t value);
  // Each value becomes the largest of all ranks'.
  Status maxOverRanksInPlace(std::span<double> values) {
    return reduceOnHost(values.data(), values.size_bytes(), bpsFloat64, bpsMax);
  }
  // Gathers the `own` bytes of every rank into `all`, in rank order.
  Status gather(std::span<const uint8_t> own, std::span<uint8_t> all);

  Result<bpsRedOp_t> preMulSum(bpsDataType_t type, uint64_t scalar);
  Status destroyOp(bpsRedOp_t op);
  Status registerBuffer(void* buffer, size_t bytes);
  // The library's facts about the communicator, as JSON.
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
  bpsHostStream_t stream_ = nullptr;  // null: the default one
  Gpu* gpu_ = nullptr;
  std::unique_ptr<Watchdog> watchdog_;
};

}  // namespace bps::perf
