// The fake's record of its calls.
#pragma once
#include <cstddef>

namespace bps::fake {

// Returns the result requested by fakeNcclFail, else 0.
int record(const char* name);
int record(const char* name, size_t count);

}  // namespace bps::fake
