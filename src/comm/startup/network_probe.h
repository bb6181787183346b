// NetworkProbe: finds out at start how calls should be cut (plan/tuning.h). If not all machines state their rate, it
// measures the rate with a few all-reduce calls. Used by the thread that starts the communicator.
#pragma once
#include <functional>

#include "src/base/deadline.h"
#include "src/comm/call/all_reduce_call.h"
#include "src/control/control_plane.h"
#include "src/plan/tuning.h"

namespace bps {

class NetworkProbe {
 public:
  // Issues an all-reduce that is cut by this tuning; does not wait for it.
  using Issue = std::function<Status(const AllReduceCall&, const Tuning&)>;
  NetworkProbe(ControlPlane& control, const JobPlan& plan, Issue issue, Deadline deadline)
      : control_(control), plan_(plan), issue_(std::move(issue)), deadline_(deadline) {}

  // Collective over all ranks; they all get the same tuning.
  Result<Tuning> tune();
  // The total size of the calls that it has made.
  size_t bytes() const { return bytes_; }

 private:
  Result<double> measureSlowestRank(size_t bytes, const Tuning& tuning);

  ControlPlane& control_;
  const JobPlan& plan_;
  const Issue issue_;
  const Deadline deadline_;
  size_t bytes_ = 0;
};

}  // namespace bps
