// What all contexts of the process share, and the C border.
#pragma once
#include <memory>
#include <utility>

#include "net_plugin/abi.h"
#include "src/base/guard.h"
#include "tests/fault_plugin/context.h"

namespace bps::fault {

// Makes a context and, the first time, finds the devices: the calls about them name no context.
Result<std::unique_ptr<Context>> openContext(uint64_t commId, abi::Logger logger);
int deviceCount();
Result<const net::DeviceInfo*> deviceAt(int index);

// The context of version 8, which has none.
void setSharedContext(std::unique_ptr<Context> context);
Context& sharedContext();

// To the caller's log, and as an ncclResult_t.
int reported(const Status& outcome);

// Every function of the tables is one call to this.
template <class F>
int apiGuard(F&& body) noexcept {
  return reported(guarded(std::forward<F>(body)));
}

}  // namespace bps::fault
