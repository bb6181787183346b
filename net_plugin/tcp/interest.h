// Interest: what a sleeping caller is to be woken for, on one socket; an epoll descriptor that the caller polls.
//
// It is changed only right before a sleep, and costs no system call when it stays the same.
#pragma once
#include <cstdint>

#include "src/base/fd.h"
#include "src/base/status.h"

namespace bps::plugin::tcp {

class Interest {
 public:
  enum class For : uint32_t { kNothing, kHangup, kReading, kWriting };

  // Made at the first call: callers that only poll cost no descriptor.
  Result<int> fd();
  Status set(int socket, For what);
  For current() const { return current_; }

 private:
  UniqueFd epoll_;
  For current_ = For::kNothing;
};

}  // namespace bps::plugin::tcp
