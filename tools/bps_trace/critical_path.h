// The critical path of a job: for each moment of the trace, the one thing that everything else waited for.
//
// The path is walked backwards, from the end of the last call. Each stage has one cause: the sum of a chunk begins when
// its last contribution arrives; a chunk is sent when its window opens or when the program makes the call; a program
// makes its next call some time after the previous one has ended. The segments between a stage and its cause follow
// each other without gaps, so their lengths add up to the length of the trace.
#pragma once
#include <cstdint>
#include <vector>

#include "tools/bps_trace/job_history.h"

namespace bps::trace {

struct Segment {
  enum class Kind {
    kProgram,      // no rank has made the next call
    kWaitForRank,  // other ranks have made the call, `at` is the last rank to make it
    kNetwork,      // a contribution or a sum is on its way between the endpoints `at` and `to`
    kOwner,        // all contributions have arrived at the owner `at`, but it does not sum yet
    kSum,          // the endpoint `at` sums
    kCopy,         // the machine `at` copies
    kMachine,      // other work inside the machine `at`
    kUnknown,      // no file has the cause
  };
  Kind kind = Kind::kUnknown;
  uint64_t from = 0, until = 0;
  size_t at = 0, to = 0;
  const TracedCall* call = nullptr;
  bool onExchangePath = false;

  uint64_t length() const { return until - from; }
};

std::vector<Segment> criticalPath(const JobHistory& history);

}  // namespace bps::trace
