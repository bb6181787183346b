// What the libraries that stand on bps's own functions need beside them.
#pragma once
#include <string>

#include "bps/bps.h"

namespace bps {

// `part` carries parts of `whole`'s calls from now on: if one of the two fails, so does the other, on all ranks; and
// CUDA's streams stand at its failed calls until bpsCommAbort or bpsCommDestroy. `name`: of the part, for messages.
// Before its first call, by all ranks.
bpsResult_t commBecomesPart(bpsComm_t part, bpsComm_t whole, const std::string& name);

// Ends `comm` on all ranks, which hear why from this one. Does not wait. Any thread.
bpsResult_t commFail(bpsComm_t comm, bpsResult_t result, const std::string& why);

}  // namespace bps
