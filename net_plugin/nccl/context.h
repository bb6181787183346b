// Context: what one successful init stands for; and the process-wide state behind all of them.
//
// The devices are found once per process, at the first init, because the calls that ask for them name no context. All
// functions may be called from any thread.
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
    bool sharedMemory = true;  // with processes of this machine
  };
  explicit Context(const Options& options) : options_(options) {}

  // Where the context's user wants to read the plugin's log; null: nowhere in particular. Kept for the process's state.
  abi::Logger logger() const { return logger_; }
  void setLogger(abi::Logger newLogger) { logger_ = newLogger; }

  // See bpsNetMemory_v1_t.
  void asksEach() { asksEach_ = true; }

  Result<std::unique_ptr<link::Listener>> listen(const link::Device& device) const;
  // Null: not yet, call again with the same handle. Attempts are told apart by the token in the handle, so nothing is
  // kept in the caller's copy of it; abandoned ones go when their time is over.
  Result<std::unique_ptr<Comm>> connect(const link::Device& device, std::span<const uint8_t> handle);

 private:
  using Attempts = std::map<tcp::Token, std::unique_ptr<link::Connector>>;

  Result<Attempts::iterator> findOrStartConnect(const link::Device& device, std::span<const uint8_t> handle)
      BPS_REQUIRES(mutex_);

  bool canUseSharedMemory(const link::Device& device) const;

  const Options options_;
  abi::Logger logger_ = nullptr;
  std::atomic<bool> asksEach_{false};  // memory ordering: says nothing of other memory, relaxed would do
  Mutex mutex_;
  Attempts attempts_ BPS_GUARDED_BY(mutex_);
};

// Reads the environment, finds the devices if need be, and makes a context. Its logger, if it has one, serves the whole
// plugin until another context brings one, and is not called any more once the context is closed: the code may be gone.
Result<Context*> openContext(abi::Logger logger);
// The context of callers whose interface has none (up to version 10): made at first use, never closed.
Result<Context*> sharedContext(abi::Logger logger = nullptr);
// Closing what is not open (null, closed already) does nothing.
void closeContext(void* context);
// Fails when it is not open.
Result<Context*> findContext(void* context);

size_t deviceCount();
Result<const link::Device*> deviceAt(int index);

}  // namespace bps::plugin::nccl
