// Describe: facts about a communicator as JSON and as log lines, for people and benchmarks. Any
// thread may call these functions.
#pragma once
#include <string>

#include "src/base/deadline.h"
#include "src/comm/progress/progress_thread.h"
#include "src/plan/tuning/tuning.h"

namespace bps {

struct CommunicatorFacts {
  const ProgressThread& progressThread;
  const Tuning& tuning;
  size_t probeBytes = 0;  // total size of the calls that measured the network
};

std::string describeCommunicator(const CommunicatorFacts& facts);
void logStart(const CommunicatorFacts& facts);

// Returns the bytes that this machine has moved over its links. The result is empty if nothing
// counts these bytes.
std::string describeTraffic(const Session& session);
// Writes the bytes that this machine has moved to the file named by BPS_TOPO_COUNTERS. Only the
// leader of the machine writes the file, after all ranks of the machine have finished their calls.
Status writeTraffic(const Session& session, Deadline deadline);

}  // namespace bps
