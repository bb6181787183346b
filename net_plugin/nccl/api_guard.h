// The C border: every function of the tables is one call to apiGuard(), which reports a failure to the caller's log and
// makes it an ncclResult_t (whose values are those of Code).
#pragma once
#include <utility>

#include "net_plugin/log.h"
#include "src/base/guard.h"

namespace bps::plugin::nccl {

template <class F>
int apiGuard(F&& body) noexcept {
  const Status status = guarded(std::forward<F>(body));
  if (status.ok()) return abi::kSuccess;
  const Status reported = guarded([&] { logWarn("{}", status.message()); });
  return static_cast<int>(status.code());
}

}  // namespace bps::plugin::nccl
