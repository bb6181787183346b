// ServerWeights: the weights of the owners for every call, while servers come and go. Every rank adds the same changes
// in the same order, so all ranks cut every call alike. The ServerWeights belong to the CallScheduler, and only the
// holder of the progress lock uses them.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

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
  // Gives the cutter the weights for the call that begins next.
  Status beforeCall(uint64_t call, Cutter& cutter);
  // Returns the weights as of this call.
  Result<std::vector<uint64_t>> at(uint64_t call) const { return weightsWith(roster_, serversAt(call)); }
  size_t present() const;               // number of servers after all changes
  std::vector<double> factors() const;  // ServerEntry::rateFactor of every server after all changes

 private:
  struct Change {
    uint64_t firstCall;
    size_t server;
    ServerEntry entry;
  };
  std::vector<ServerEntry> serversAt(uint64_t call) const;

  const Roster& roster_;
  std::vector<ServerEntry> servers_;  // without the changes below
  std::deque<Change> changes_;        // in the order of add()
};

}  // namespace bps
