// Context: the result of one init call, with its connection attempts. The process-wide state (contexts and devices) is
// in context.cc.
//
// The first init finds the devices for the whole process, because the functions that return devices have no context
// argument. Any thread may call any function.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "net_plugin/link/connector.h"
#include "net_plugin/link/listener.h"
#include "src/base/mutex.h"

namespace bps::plugin::nccl {

class Context {
 public:
  struct Options {
    std::chrono::duration<double> connectTime{};
    bool sharedMemory = true;  // between processes of this machine
  };
  explicit Context(const Options& options) : options_(options) {}

  // The log function that was passed to init; may be null. Guarded by the mutex of the process-wide state.
  abi::Logger logger() const { return logger_; }
  void setLogger(abi::Logger newLogger) { logger_ = newLogger; }

  // See bpsNetMemory_v1_t.
  void asksEach() { asksEach_ = true; }

  Result<std::unique_ptr<link::Listener>> listen(const link::Device& device) const;
  // Returns null until the connection is established; then call again with the same handle. The token in the handle
  // identifies the attempt, so the caller's copy of the handle is not modified. Abandoned attempts are removed after
  // their deadline.
  Result<std::unique_ptr<Comm>> connect(const link::Device& device, std::span<const uint8_t> handle);

 private:
  using Attempts = std::map<tcp::Token, std::unique_ptr<link::Connector>>;

  Result<Attempts::iterator> findOrStartConnect(const link::Device& device, std::span<const uint8_t> handle)
      BPS_REQUIRES(mutex_);

  bool canUseSharedMemory(const link::Device& device) const;

  const Options options_;
  abi::Logger logger_ = nullptr;
  std::atomic<bool> asksEach_{false};  // memory ordering: it publishes no other data
  Mutex mutex_;
  Attempts attempts_ BPS_GUARDED_BY(mutex_);
};

// Reads the environment, finds the devices if this is the first context, and creates a context. Its log function, if
// not null, serves the whole plugin until another context sets one. It is not called after the context is closed,
// because its code may be unloaded then.
Result<Context*> openContext(abi::Logger logger);
// The context for interface versions up to 10, which have no contexts. Created at the first call, never closed.
Result<Context*> sharedContext(abi::Logger logger = nullptr);
// Does nothing if the context is null or not open.
void closeContext(void* context);
// Fails if the context is not open.
Result<Context*> findContext(void* context);

size_t deviceCount();
Result<const link::Device*> deviceAt(int index);

}  // namespace bps::plugin::nccl
