// The state that all contexts of the process share, and apiGuard(), which wraps the plugin's C
// functions.
#pragma once
#include <memory>
#include <utility>

#include "net_plugin/abi.h"
#include "src/base/guard.h"
#include "tests/fault_plugin/context.h"

namespace bps::fault {

// Makes a context. The first call also finds the devices, because the plugin's functions about
// devices get no context.
Result<std::unique_ptr<Context>> openContext(uint64_t commId, abi::Logger logger);
int deviceCount();
Result<const net::DeviceInfo*> deviceAt(int index);

// The context for version 8 of the interface, whose functions have no context argument.
void setSharedContext(std::unique_ptr<Context> context);
Context& sharedContext();

// Logs a failure with the caller's logger. Returns the status as an ncclResult_t.
int reported(const Status& outcome);

// Every C function of the plugin runs its body with apiGuard(), which reports failures and
// exceptions.
template <class F>
int apiGuard(F&& body) noexcept {
  return reported(guarded(std::forward<F>(body)));
}

}  // namespace bps::fault
