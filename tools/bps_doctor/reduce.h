// Runs a real all-reduce of the job and measures it, in a process of its own.
#pragma once
#include <optional>

#include "src/base/deadline.h"
#include "tools/bps_doctor/survey.h"

namespace bps::doctor {

// Every rank calls this at about the same time. The child process is killed if it has not ended at the deadline.
ReduceResult measureReduce(uint64_t bytes, Deadline deadline);
// If this process is a child of measureReduce(), runs the all-reduce and returns the exit status.
std::optional<int> runReduceProcess(int argc, char** argv);

}  // namespace bps::doctor
