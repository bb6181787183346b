// Context: what one successful init stands for; and the process-wide state behind all of them.
//
// The devices are found once per process, at the first init, because the calls that ask for them name no context. All
// functions may be called from any thread.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "net_plugin/link/connector.h"
#include "net_plugin/link/listener.h"
#include "src/base/mutex.h"

namespace bps::plugin::nccl {

class Context {
 public:
  struct Settings {
    std::chrono::duration<double> connectTime{};
    bool sharedMemory = true;  // with processes of this machine
  };
  explicit Context(const Settings& settings) : settings_(settings) {}

  Result<std::unique_ptr<link::Listener>> listen(const link::Device& device) const;
  // Null: not yet, call again with the same handle. Attempts are told apart by the token in the handle, so nothing is
  // kept in the caller's copy of it; abandoned ones go when their time is over.
  Result<std::unique_ptr<Comm>> connect(const link::Device& device, std::span<const uint8_t> handle);

 private:
  using Attempts = std::map<tcp::Token, std::unique_ptr<link::Connector>>;

  Result<Attempts::iterator> attemptFor(const link::Device& device, std::span<const uint8_t> handle)
      BPS_REQUIRES(mutex_);

  const Settings settings_;
  Mutex mutex_;
  Attempts attempts_ BPS_GUARDED_BY(mutex_);
};

// Reads the environment, finds the devices if need be, and makes a context.
Result<Context*> openContext();
// The context of callers whose interface has none (up to version 10): made at first use, never closed.
Result<Context*> sharedContext();
// Closing what is not open (null, closed already) does nothing.
void closeContext(void* context);
// Fails when it is not open.
Result<Context*> findContext(void* context);

size_t deviceCount();
Result<const link::Device*> deviceAt(int index);

}  // namespace bps::plugin::nccl
