// ServerWeights: the weights of the owners for every call, while servers come and go. Every rank adds the same changes
// in the same order, so all ranks cut every call alike. Any thread may call these functions.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "src/base/mutex.h"
#include "src/base/status.h"
#include "src/plan/cutter.h"
#include "src/plan/job_plan.h"
#include "src/wire/roster.h"

namespace bps {

class ServerWeights {
 public:
  explicit ServerWeights(const Roster& roster) : roster_(roster), servers_(roster.servers) {}

  // From call `firstCall` on, this server is present or absent. If two changes concern the same server, the change that
  // was added last wins for the calls that both concern.
  void add(uint64_t firstCall, size_t server, bool present, double bytesPerSecond = 0);
  // From call `firstCall` on, this server has this fraction of its rate (ServerEvent::rateFactor).
  void addRate(uint64_t firstCall, size_t server, double factor);
  bool changeAt(uint64_t call) const;  // true if the weights change with this call
  // Gives the cutter the weights for the call that is cut next.
  Status beforeCut(uint64_t call, Cutter& cutter) const;
  // Call this function when a call begins: it forgets what only earlier calls need.
  void beforeBegin(uint64_t call);
  // Returns the weights as of this call.
  Result<std::vector<uint64_t>> at(uint64_t call) const;
  size_t present() const;               // number of servers after all changes
  std::vector<double> factors() const;  // ServerEntry::rateFactor of every server after all changes

 private:
  struct Change {
    uint64_t firstCall;
    size_t server;
    ServerEntry entry;
  };
  std::vector<ServerEntry> serversAt(uint64_t call) const BPS_REQUIRES(mutex_);

  const Roster& roster_;
  mutable Mutex mutex_;
  std::vector<ServerEntry> servers_ BPS_GUARDED_BY(mutex_);  // without the changes below
  std::deque<Change> changes_ BPS_GUARDED_BY(mutex_);        // in the order of add()
};

}  // namespace bps
