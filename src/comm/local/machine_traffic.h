// MachineTraffic: what one machine has moved for a communicator, by link: its ranks inside it (link_byte_counters.h),
// each between its CUDA device and host memory or, past it, its NIC, and those that drive the network to and from other
// machines and servers: each through the NIC that the plan gives to it, or, if it is the only one, through the NICs
// that the plan gives each part to.
//
// Threads: total(), calls() and bytes() any; the rest belongs to who has the turn (progress_engine.h). As with the
// meter's numbers, what is read while calls are under way is some of them.
#pragma once
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "src/comm/lanes/collective.h"
#include "src/comm/lanes/rails.h"
#include "src/comm/local/link_byte_counters.h"
#include "src/comm/local/machine_plan.h"

namespace bps {

class MachineTraffic {
 public:
  // `rows` as in LinkByteCounters; none: this rank is alone on its machine.
  MachineTraffic(std::unique_ptr<const MachinePlan> plan, std::vector<LinkByteCounters::Counter*> rows, size_t self);

  const MachinePlan& plan() const { return *plan_; }
  const LinkByteCounters& meter() const { return meter_; }

  // A call is complete.
  void count(const Collective& call);
  // By a driver too: the call went over the network from this machine, one of so many, on this rank's rail.
  void countNetwork(const Collective& call, const Rails& rails, size_t machine, size_t machines);
  // Nothing of this rank's is under way: counting begins anew.
  void clear();

  Traffic total() const { return meter_.total(); }
  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  std::unique_ptr<const MachinePlan> plan_;
  const size_t self_;
  std::vector<LinkByteCounters::Counter> ownRow_;
  LinkByteCounters meter_;
  std::vector<LinkByteCounters::Increment> copyOut_, copyBack_, gpuAndNic_;                    // of one byte
  std::map<std::pair<uint64_t, uint64_t>, std::vector<LinkByteCounters::Increment>> network_;  // by bytes and unit
  std::atomic<uint64_t> calls_{0}, bytes_{0};
};

}  // namespace bps
