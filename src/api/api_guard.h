// apiGuard() wraps the body of every exported function. No exception leaves bps, and every failure
// becomes a result code. Any thread may call apiGuard().
#pragma once
#include <string>
#include <utility>

#include "bps/bps.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/log.h"

namespace bps {

// The text that bpsGetLastError(NULL) returns on this thread.
inline std::string& threadError() {
  thread_local std::string text;
  return text;
}

template <class Body>
bpsResult_t apiGuard(const char* function, Body&& body) noexcept {
  const Status status = guarded(std::forward<Body>(body));
  if (status.ok()) return bpsSuccess;
  if (status.code() == Code::kInProgress) return bpsInProgress;
  const Status kept = guarded([&] {
    threadError() = std::string(function) + ": " + status.message();
    logInfo(Subsystem::kColl, "{}", threadError());
  });
  return static_cast<bpsResult_t>((kept.ok() ? status : kept).code());
}

// Makes a failure with kInvalidArgument. The text names the argument.
template <class... Args>
Status badArgument(fmt::format_string<Args...> text, Args&&... args) {
  return failure(Code::kInvalidArgument, text, std::forward<Args>(args)...);
}

}  // namespace bps
