// Interest: what a sleeping caller is to be woken for, on each socket of a connection; an epoll descriptor that the
// caller polls.
//
// It is changed right before a sleep, or when there was none for long, and costs no system call when it stays the same.
#pragma once
#include <cstdint>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps::plugin::stream {

class Interest {
 public:
  enum class Event : uint32_t { kNothing, kHangup, kReading, kWriting };

  // Made at the first call: callers that only poll cost no descriptor.
  Result<int> fd();
  // `current` is what was set for this socket before; at first kNothing.
  Status set(int socket, Event& current, Event what);

 private:
  UniqueFd epoll_;
};

}  // namespace bps::plugin::stream
