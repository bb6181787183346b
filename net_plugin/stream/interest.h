// Interest: the epoll descriptor of a connection. It knows for which event each socket of the
// connection wakes a sleeping caller.
//
// A connection sets the events right before a sleep, and removes them after a long time without
// sleep. An Interest is used by the thread that uses the connection.
#pragma once
#include <cstdint>

#include "src/base/io/fd.h"
#include "src/base/status.h"

namespace bps::plugin::stream {

class Interest {
 public:
  enum class Event : uint32_t { kNothing, kHangup, kReading, kWriting };

  // Returns the epoll descriptor. The first call creates it, so callers that never sleep need no
  // descriptor.
  Result<int> fd();
  // Changes the event of a socket from `current` (initially kNothing) to `what`, and updates
  // `current`. Makes a system call only if the event changes.
  Status set(int socket, Event& current, Event what);

 private:
  UniqueFd epoll_;
};

}  // namespace bps::plugin::stream
