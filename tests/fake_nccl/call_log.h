// The double's memory of what was called.
#pragma once
#include <cstddef>

namespace bps::fake {

// Returns the result that was asked for with fakeNcclFail, else 0.
int record(const char* name);
int record(const char* name, size_t count);

}  // namespace bps::fake
