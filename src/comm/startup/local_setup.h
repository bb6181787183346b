// Local set-up: the part of start-up that concerns this rank's machine. It connects the ranks of the machine, chooses
// the rails and the NIC of this rank, and finds out whether that NIC may access GPU memory.
#pragma once
#include "src/base/deadline.h"
#include "src/comm/progress/session.h"

namespace bps {

// Fills in everything in the session except `plan`, which must be there. Collective over all ranks.
Status setUpMachine(Session& session, Deadline deadline);

}  // namespace bps
