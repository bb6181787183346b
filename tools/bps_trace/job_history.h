// JobHistory: the calls and chunks of a job, put together from the events of all processes. A time of 0 means that no
// file has the event.
#pragma once
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "tools/bps_trace/trace_set.h"

namespace bps::trace {

struct TracedCall;

// A chunk as one machine has seen it.
struct ChunkPart {
  uint64_t admitted = 0, pushed = 0, received = 0, retired = 0;  // on the machine
  uint64_t arrived = 0, answered = 0;                            // at the owner
  uint64_t sumBegun = 0, summed = 0;                             // on the machine, only on the exchange path
};

struct TracedChunk {
  uint16_t owner = 0;  // an endpoint, or trace::kExchangePath
  uint8_t rail = 0;
  uint32_t sequence = 0;
  uint64_t bytes = 0;
  TracedCall* call = nullptr;
  std::map<uint16_t, ChunkPart> parts;  // by machine
  uint64_t sumBegun = 0, summed = 0;    // at the owner

  bool usesExchangePath() const { return owner == trace::kExchangePath; }
  const ChunkPart* part(size_t machine) const {
    const auto found = parts.find(static_cast<uint16_t>(machine));
    return found == parts.end() ? nullptr : &found->second;
  }
};

struct CallOnRank {
  uint64_t submitted = 0, admitted = 0, copiedOut = 0, finished = 0;
  bool failed = false;
};

struct TracedCall {
  uint64_t number = 0, bytes = 0;
  std::map<uint32_t, CallOnRank> ranks;
  std::vector<const TracedChunk*> chunks;

  uint64_t firstSubmitted() const;
  uint64_t lastFinished() const;
};

class JobHistory {
 public:
  explicit JobHistory(const TraceSet& set);

  const TraceSet& set() const { return set_; }
  const std::map<uint64_t, TracedCall>& calls() const { return calls_; }
  const std::deque<TracedChunk>& chunks() const { return chunks_; }  // those that a machine has contributed to
  // The machine of a rank, and the ranks of a machine. Only ranks whose files are given.
  size_t machineOf(uint32_t rank) const { return machineOf_.at(rank); }
  const std::vector<uint32_t>& ranksOf(size_t machine) const;

 private:
  using Key = std::tuple<uint16_t, uint8_t, uint32_t>;
  void addCallEvent(uint32_t rank, const trace::Event& event);
  void addMachineEvent(size_t machine, const trace::Event& event);
  void addOwnerEvent(size_t owner, const trace::Event& event);

  const TraceSet& set_;
  std::map<uint64_t, TracedCall> calls_;
  std::deque<TracedChunk> chunks_;
  std::map<Key, TracedChunk*> byKey_;
  std::map<uint32_t, size_t> machineOf_;
  std::map<size_t, std::vector<uint32_t>> ranksOf_;
};

}  // namespace bps::trace
