#include "src/comm/startup/connect.h"

#include <algorithm>

#include "src/comm/startup/local_setup.h"

namespace bps {
namespace {

// Enough slots for the windows of all owners, and for chunks that are copied to and from the device meanwhile.
StagingShape stagingShape(const JobPlan& plan, const Env& env) {
  const auto owners = static_cast<size_t>(std::count(plan.owners.begin(), plan.owners.end(), true));
  return {std::clamp<size_t>(owners * (plan.depth + 2), 8, 64), plan.limits.maxChunkBytes, timeoutOf(env)};
}

}  // namespace

Result<std::unique_ptr<ProgressThread>> connect(SessionBase base, Deadline deadline) {
  auto session = std::make_unique<Session>(std::move(base));
  session->plan = BPS_TRY(JobPlan::make(session->control.roster()));
  BPS_TRY(setUpMachine(*session, deadline));
  if (session->cuda != nullptr) session->cuda->start(session->bell, stagingShape(session->plan, session->env));
  return ProgressThread::start(std::move(session), deadline);
}

}  // namespace bps
