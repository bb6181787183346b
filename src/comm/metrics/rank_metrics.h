// RankMetrics: serves the metrics of this process if BPS_METRICS is set (docs/service.md).
//
// The first communicator starts a MetricsServer, and the last one ends it. The counters of communicators that have
// ended stay in the totals. If the address cannot be used, a warning names it, and the process goes on without metrics.
#pragma once
#include <functional>
#include <memory>

#include "src/base/env.h"
#include "src/base/io/address.h"
#include "src/base/status.h"
#include "src/comm/metrics/rank_page.h"
#include "src/wire/roster.h"

namespace bps {

class MetricsRegistry;

// The membership of one communicator in the metrics of the process. Any thread may create and destroy it.
class RankMetrics {
 public:
  // Returns null if BPS_METRICS is unset. Any thread may call `failure` until the destructor has returned.
  static std::unique_ptr<RankMetrics> enter(const Env& env, const Roster& roster, uint32_t rank,
                                            std::function<Status()> failure);
  // Use enter().
  RankMetrics(MetricsRegistry& registry, const Roster& roster, uint32_t rank, std::function<Status()> failure);
  RankMetrics(const RankMetrics&) = delete;
  RankMetrics& operator=(const RankMetrics&) = delete;
  ~RankMetrics();

  CommCounters& counters() { return counters_; }

 private:
  friend class MetricsRegistry;

  MetricsRegistry& registry_;
  const RankIdentity identity_;
  const std::function<Status()> failure_;
  CommCounters counters_;
};

// The address for the process of `rank`. Every process of a machine adds its place among the processes of the machine
// to the port, in the order of their ranks: 0, 1, 2 ... Port 0 stays 0.
Result<Address> metricsAddress(const std::string& setting, const Roster& roster, uint32_t rank);

}  // namespace bps
