// The metrics page of bps-server.
#pragma once
#include <string>

#include "src/server/control_server.h"
#include "src/server/job_threads.h"

namespace bps {

// Returns the page. Waits up to JobThreads::kMaxCountersWait for the summation threads. Any thread may call
// metricsPage().
std::string metricsPage(const server::ControlServer& server, const JobThreads& jobs);

}  // namespace bps
