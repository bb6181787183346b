// ServerCounters: what the control thread of a server counts, for its metrics.
//
// The control thread writes; any thread may read.
#pragma once
#include "src/base/counter.h"

namespace bps::server {

struct ServerCounters {
  Counter turns;          // of the control thread's event loop
  Counter jobsBegun;      // jobs whose roster became final with this server
  Counter jobsCompleted;  // begun jobs that ended without a failure that this server saw
  Counter jobsFailed;     // begun jobs that ended with such a failure
  Counter jobsLeft;       // jobs that went on without this server, because it drains
  Counter jobsRefused;    // proposals of jobs that this server refused, for example because it drains
};

}  // namespace bps::server
