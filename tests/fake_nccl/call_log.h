// The NCCL double's log of calls. Threads: any.
#pragma once
#include <cstddef>

namespace bps::fake {

// Logs a call. Returns the result that fakeNcclFail() has set for it, else 0.
int record(const char* name);
int record(const char* name, size_t count);

}  // namespace bps::fake
