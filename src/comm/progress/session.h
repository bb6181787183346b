// Session: what start-up has agreed on and made for one communicator on this rank. Immutable; the communicator owns
// what it points to and outlives every holder of a copy.
#pragma once
#include <memory>

#include "src/base/io/fd.h"
#include "src/comm/failure/first_error.h"
#include "src/control/control_plane.h"
#include "src/plan/job_plan.h"
#include "src/plan/rails.h"

namespace bps {

class LocalReducer;
class MachineTraffic;
class StagedBuffers;

struct Session {
  ControlPlane* control = nullptr;
  const FirstError* failure = nullptr;
  std::shared_ptr<Doorbell> bell;
  JobPlan plan;
  Rails rails;
  LocalReducer* local = nullptr;      // null: this rank is alone on its machine
  MachineTraffic* traffic = nullptr;  // null: nobody counts bytes
  StagedBuffers* staged = nullptr;    // null: host memory only
};

}  // namespace bps
