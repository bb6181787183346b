// The name of a thread in top, ps and gdb. Only threads of bps get names; a thread of the application keeps its own.
#pragma once
#include <pthread.h>

namespace bps {

// Names the calling thread. The name has at most 15 characters.
template <size_t N>
void nameThread(const char (&name)[N]) {
  static_assert(N <= 16, "the kernel keeps 15 characters");
  ::pthread_setname_np(::pthread_self(), name);
}

}  // namespace bps
