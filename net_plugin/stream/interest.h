// Interest: the epoll descriptor of a connection, with the events for which each of its sockets wakes a sleeping
// caller.
//
// A connection sets the events right before a sleep, and removes them after a long time without sleep. Used by the
// thread that uses the connection.
#pragma once
#include <cstdint>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps::plugin::stream {

class Interest {
 public:
  enum class Event : uint32_t { kNothing, kHangup, kReading, kWriting };

  // Created at the first call, so that callers that never sleep need no descriptor.
  Result<int> fd();
  // `current` is the event set for this socket before, initially kNothing. Makes a system call only if it changes.
  Status set(int socket, Event& current, Event what);

 private:
  UniqueFd epoll_;
};

}  // namespace bps::plugin::stream
