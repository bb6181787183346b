// apiGuard(): wraps the body of every function in the exported tables. It logs a failure and
// returns the failure's Code as an ncclResult_t, which has the same values.
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
