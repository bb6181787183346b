// The record of the calls that the fake NCCL has received.
#pragma once
#include <cstddef>

namespace bps::fake {

// Records the call. Returns the result that fakeNcclFail requests for the call, or 0 if none is
// requested.
int record(const char* name);
int record(const char* name, size_t count);

// Counts bytes that this process sends to other ranks.
void countSent(size_t bytes);

}  // namespace bps::fake
