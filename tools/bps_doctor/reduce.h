// Runs a real all-reduce of the job and measures it.
#pragma once
#include "src/base/deadline.h"
#include "tools/bps_doctor/survey.h"

namespace bps::doctor {

// Every rank calls this at about the same time. The all-reduce runs in a child process, which is killed if it has not
// ended at the deadline. The calling process must have no other threads.
ReduceResult measureReduce(uint64_t bytes, Deadline deadline);

}  // namespace bps::doctor
