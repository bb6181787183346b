// Context: the object that one init call of the plugin creates. It holds the connection attempts of
// the caller. context.cc holds the process-wide state, which is all contexts and devices.
//
// The first init call finds the devices for the whole process, because the functions that return
// devices have no context argument. Any thread may call the functions of this header.
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
    bool sharedMemory = true;  // allows shared memory between processes of this machine
  };
  explicit Context(const Options& options) : options_(options) {}

  // The log function that the caller passed to init, or null. The mutex of the process-wide state
  // guards the log function.
  abi::Logger logger() const { return logger_; }
  void setLogger(abi::Logger newLogger) { logger_ = newLogger; }

  // Records that the caller asks each connection for its kinds of memory; see bpsNetMemory_v1_t.
  void asksEach() { asksEach_ = true; }

  Result<std::unique_ptr<link::Listener>> listen(const link::Device& device) const;
  // Returns null while the connection is not established; the caller must then call again with the
  // same handle. The token in the handle identifies the connection attempt, so the plugin does not
  // modify the caller's handle. An abandoned attempt is removed after its deadline.
  Result<std::unique_ptr<Comm>> connect(const link::Device& device, std::span<const uint8_t> handle);

 private:
  using Attempts = std::map<tcp::Token, std::unique_ptr<link::Connector>>;

  Result<Attempts::iterator> findOrStartConnect(const link::Device& device, std::span<const uint8_t> handle)
      BPS_REQUIRES(mutex_);

  bool canUseSharedMemory(const link::Device& device) const;

  const Options options_;
  abi::Logger logger_ = nullptr;
  std::atomic<bool> asksEach_{false};  // publishes no other data, so any memory ordering suffices
  Mutex mutex_;
  Attempts attempts_ BPS_GUARDED_BY(mutex_);
};

// Reads the environment, finds the devices if no earlier call has found them, and creates a
// context. If `logger` is not null, the whole plugin uses it until another context sets a log
// function. The plugin does not call `logger` after the context is closed, because the caller may
// then unload the code of `logger`.
Result<Context*> openContext(abi::Logger logger);
// Returns the context for callers of interface versions up to 10, which have no contexts. The first
// call creates this context, which is never closed.
Result<Context*> sharedContext(abi::Logger logger = nullptr);
// Does nothing if the context is null or not open.
void closeContext(void* context);
// Returns the context that the caller passed as a pointer. Fails if this context is not open.
Result<Context*> findContext(void* context);

size_t deviceCount();
Result<const link::Device*> deviceAt(int index);

}  // namespace bps::plugin::nccl
