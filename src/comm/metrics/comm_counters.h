// CommCounters: what one communicator has done on this rank, for the metrics of the process.
//
// Any thread may read. Whoever ends a call counts it; only the holder of the progress lock (progress_engine.h) writes
// the rest. A communicator without metrics has no CommCounters, so it counts nothing and reads no clock.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>

#include "src/base/counter.h"
#include "src/comm/metrics/server_tally.h"
#include "src/net/net_counters.h"
#include "src/wire/roster.h"

namespace bps {

struct CallCounters {
  Counter begun, completed, failed;
  Counter bytes;        // of the buffers of completed calls
  Counter nanoseconds;  // from bpsAllReduce to the end of the call, added up over all calls that have ended
  Counter bytesToHost, bytesToDevice;  // copied between device memory and host memory
};

class CommCounters {
 public:
  // The first machines get a sample of their own. The wait for all further ones is added up, so that a large job does
  // not fill the page.
  static constexpr size_t kMaxWaits = 64;
  struct Wait {
    explicit Wait(uint32_t of) : rank(of) {}
    const uint32_t rank;  // the rank that drives the network of the machine
    std::atomic<uint64_t> nanoseconds{0};
  };

  CommCounters(const Roster& roster, uint32_t rank) : servers(roster) {
    const size_t rail = roster.ranks[rank].localRank;
    if (rail >= roster.rails() || roster.machines.size() == 1) return;
    for (size_t m = 0; m < std::min(roster.machines.size(), kMaxWaits); ++m)
      waits.emplace_back(static_cast<uint32_t>(roster.memberOf(m, rail)));
    furtherMachines = roster.machines.size() > kMaxWaits;
  }
  // Takes over how long each machine was waited for. `waited` is a function of the number of a machine.
  template <class Waited>
  void setWaits(size_t machines, const Waited& waited) {
    uint64_t others = 0;
    for (size_t m = 0; m < machines; ++m) {
      const auto nanoseconds = static_cast<uint64_t>(std::chrono::nanoseconds(waited(m)).count());
      if (m < waits.size()) waits[m].nanoseconds.store(nanoseconds, std::memory_order_relaxed);
      else others += nanoseconds;
    }
    otherWaits.store(others, std::memory_order_relaxed);
  }

  CallCounters calls;
  const std::shared_ptr<net::NetCounters> network = std::make_shared<net::NetCounters>();
  ServerTally servers;
  std::atomic<uint64_t> chunksInFlight{0};
  std::deque<Wait> waits;  // by machine; empty if this rank cannot drive a network
  bool furtherMachines = false;
  std::atomic<uint64_t> otherWaits{0};  // of all further machines, in nanoseconds
};

}  // namespace bps
