// The examination of a job: what each rank does, and in which order. First a rank looks at its own machine, then all
// ranks meet at rank 0, test the ways between them and the servers, and last make a real all-reduce. Every step has a
// deadline.
#pragma once
#include "src/base/env/launch_env.h"
#include "tools/bps_doctor/judge/judge.h"

namespace bps::doctor {

struct Request {
  Env env;                            // with the rendezvous address of the launcher in `root`
  LaunchEnv launch;                   // rank and number of ranks
  std::vector<std::string> warnings;  // about the environment
  uint64_t bytes = 0;                 // of the all-reduce; 0: none
  double waitSeconds = 0;             // how long rank 0 waits for the other ranks
};

struct Outcome {
  Survey survey;
  std::vector<Finding> findings;
};

// Rank 0: examines the job and returns the result.
Result<Outcome> examine(const Request& request);
// The other ranks: take part. Returns the findings of a rank that could not take part to the end.
Result<std::vector<Finding>> takePart(const Request& request);

}  // namespace bps::doctor
