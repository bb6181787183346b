// The state that all contexts of the process share, and the guard of the C functions.
#pragma once
#include <memory>
#include <utility>

#include "net_plugin/abi.h"
#include "src/base/guard.h"
#include "tests/fault_plugin/context.h"

namespace bps::fault {

// Makes a context. The first call also finds the devices, because the calls about devices name no context.
Result<std::unique_ptr<Context>> openContext(uint64_t commId, abi::Logger logger);
int deviceCount();
Result<const net::DeviceInfo*> deviceAt(int index);

// The context of interface version 8, which has no context argument.
void setSharedContext(std::unique_ptr<Context> context);
Context& sharedContext();

// Logs the failure with the caller's logger and returns it as an ncclResult_t.
int reported(const Status& outcome);

// Every function of the tables is one call of this.
template <class F>
int apiGuard(F&& body) noexcept {
  return reported(guarded(std::forward<F>(body)));
}

}  // namespace bps::fault
