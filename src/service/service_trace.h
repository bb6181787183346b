// ServiceTrace: records the stages of the chunks of one SumService (BPS_TRACE). It runs on the thread of the service.
//
// A service counts its rounds without end. An event has the number of the round within its call, which all ranks know.
#pragma once
#include <cstdint>
#include <vector>

#include "src/trace/recorder.h"

namespace bps {

class ServiceTrace {
 public:
  // At most `depth` rounds are summed and not answered by all machines.
  ServiceTrace(trace::Recorder& recorder, uint8_t rail, size_t machines, size_t depth)
      : recorder_(recorder), rail_(rail), arrivals_(machines), answered_(machines), rounds_(depth) {}

  // The contribution of a machine. The contributions of each machine arrive in the order of the rounds.
  void arrived(size_t machine, const trace::CallId& call, size_t bytes) {
    record(trace::Stage::kArrived, arrivals_[machine].next(call, bytes), machine);
  }
  void sumBegins(uint64_t round, const trace::CallId& call, size_t bytes) {
    rounds_[round % rounds_.size()] = sums_.next(call, bytes);
    record(trace::Stage::kSumBegun, rounds_[round % rounds_.size()], trace::kNoPeer);
  }
  void summed(uint64_t round) { record(trace::Stage::kSummed, rounds_[round % rounds_.size()], trace::kNoPeer); }
  // The transport has taken the first `rounds` answers to this machine.
  void answered(size_t machine, uint64_t rounds) {
    for (uint64_t& round = answered_[machine]; round < rounds; ++round)
      record(trace::Stage::kAnswered, rounds_[round % rounds_.size()], machine);
  }

 private:
  struct Chunk {
    trace::CallId call;
    uint32_t round = 0;
    size_t bytes = 0;
  };
  // Counts the chunks of each call.
  struct Position {
    Chunk last;
    bool any = false;

    const Chunk& next(const trace::CallId& call, size_t bytes) {
      const uint32_t round = any && call == last.call ? last.round + 1 : 0;
      any = true;
      last = {call, round, bytes};
      return last;
    }
  };
  void record(trace::Stage stage, const Chunk& chunk, size_t machine) {
    recorder_.add(stage, chunk.call, {static_cast<uint16_t>(machine), chunk.round, chunk.bytes, rail_});
  }

  trace::Recorder& recorder_;
  const uint8_t rail_;
  std::vector<Position> arrivals_;  // per machine
  std::vector<uint64_t> answered_;  // per machine
  Position sums_;
  std::vector<Chunk> rounds_;  // the last rounds that are summed
};

}  // namespace bps
