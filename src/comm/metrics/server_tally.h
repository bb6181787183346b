// ServerTally: counts how the servers of a communicator change, from the events that the hub sends to all ranks.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "src/base/counter.h"
#include "src/wire/roster.h"
#include "src/wire/server_messages.h"

namespace bps {

class ServerTally {
 public:
  enum class Change : uint8_t { kLost, kJoined, kLeft, kRate };
  static constexpr std::array<std::string_view, 4> kNames{"lost", "joined", "left", "rate"};
  using Counts = std::array<uint64_t, kNames.size()>;  // by Change

  explicit ServerTally(const Roster& roster);
  // Call note() for every event, in their order. Only one thread at a time may do so; any thread may call the functions
  // below.
  void note(const ServerEvent& event);
  Counts counts() const;
  uint64_t inUse() const { return inUse_.load(std::memory_order_relaxed); }

 private:
  struct Pending {  // a change that has not taken effect
    ServerEvent::Kind what;
    uint32_t server;
  };
  void apply(const Pending& change);
  void set(uint32_t server, bool present);
  void count(Change change) { counters_[static_cast<size_t>(change)].add(); }

  std::vector<bool> present_;  // by server
  std::optional<Pending> pending_;
  std::array<Counter, kNames.size()> counters_;
  std::atomic<uint64_t> inUse_{0};
};

}  // namespace bps
