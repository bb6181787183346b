// MachineTraffic: the bytes that one machine has moved for a communicator, by link (link_byte_counters.h). It counts:
// - copies between the ranks of the machine;
// - each rank's copies between its CUDA device and host memory, or directly between the device and its NIC;
// - the network traffic of the ranks that drive rails. A driver counts its traffic on the NIC that the
//   plan assigns to it. The only driver of a machine counts each part of a chunk on the NIC that the
//   plan assigns to this part.
//
// Threads: any thread may call total(), calls() and bytes(); only the holder of the progress lock
// (progress_engine.h) calls the other functions. A value that is read while calls are in flight may
// include some of their bytes.
#pragma once
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "src/comm/call/collective.h"
#include "src/comm/local/machine/link_byte_counters.h"
#include "src/comm/local/machine/machine_plan.h"
#include "src/plan/rails.h"

namespace bps {

class MachineTraffic {
 public:
  // `rows` has the same meaning as in LinkByteCounters. If `rows` is empty, this rank is alone on
  // its machine and uses a private row.
  MachineTraffic(std::unique_ptr<const MachinePlan> plan, std::vector<LinkByteCounters::Counter*> rows, size_t self);

  const MachinePlan& plan() const { return *plan_; }
  const LinkByteCounters& meter() const { return meter_; }

  // Counts a complete call.
  void count(const Collective& call);
  // Counts the network bytes of a complete call on this rank's rail; does nothing if the rail did not carry the call.
  // `machine` is this machine's index among `machines`.
  void countNetwork(const Collective& call, const Rails& rails, size_t machine, size_t machines);
  // Resets this rank's counters. Call clear() only while no call of this rank is in flight.
  void clear();

  Traffic total() const { return meter_.total(); }
  uint64_t calls() const { return calls_.load(std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  std::unique_ptr<const MachinePlan> plan_;
  const size_t self_;
  std::vector<LinkByteCounters::Counter> ownRow_;
  LinkByteCounters meter_;
  std::vector<LinkByteCounters::Increment> copyOut_, copyBack_, gpuAndNic_;                    // per byte
  std::map<std::pair<uint64_t, uint64_t>, std::vector<LinkByteCounters::Increment>> network_;  // bytes and unit
  std::atomic<uint64_t> calls_{0}, bytes_{0};
};

}  // namespace bps
