// Connection: one connection of the wrapped plugin, with injected faults. A Connection also checks
// that the caller keeps the rules of the net plugin interface as strictly as any plugin may
// require. Memory must be registered, and completions must be tested in order. Only one thread at a
// time may use a connection, and everything must be closed at the end. If the code under test
// breaks a rule, the process ends with a message.
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <vector>

#include "src/base/io/fd.h"
#include "src/net/plugin_adapter.h"
#include "tests/fault_plugin/fault_injector.h"

namespace bps::fault {

// Ends the process with a message because the caller has broken a rule of the interface.
[[noreturn]] void abortOnMisuse(const std::string& what);

class Connection;
class Context;

// A connection of the wrapped plugin.
struct WrappedComm {
  void* comm = nullptr;
  bool sends = false;
};

// Memory that the caller has registered on a connection.
struct Region {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  void* inner = nullptr;
  uint8_t* gpu = nullptr;          // the CPU's address of GPU memory; null for host memory
  std::vector<uint8_t> unflushed;  // bytes received for GPU memory and not yet flushed, at equal offsets

  // Returns the address that the wrapped plugin uses for the byte that the caller has at `at`.
  uint8_t* place(uint8_t* at, bool sends) {
    if (gpu == nullptr) return at;
    return (sends ? gpu : unflushed.data()) + (at - data);
  }
};

// A request that the caller has posted on a connection.
struct Request {
  Connection* owner = nullptr;
  void* inner = nullptr;
  uint8_t* data = nullptr;
  Region* memory = nullptr;
  bool live = false, complete = false;
  net::Completion completion;
  bool flushes = false;                             // true for a flush, which has no message
  size_t bytes = 0;                                 // the number of bytes to flush
  std::chrono::steady_clock::time_point visibleAt;  // when the caller may see that the request is complete
};

class Connection {
 public:
  // Closes the wrapped plugin's connection in the destructor.
  Connection(Context& context, std::shared_ptr<net::PluginAdapter> adapter, std::shared_ptr<FaultInjector> injector,
             WrappedComm wrapped);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  Result<Region*> registerMemory(void* data, size_t bytes, bool onGpu);
  void deregister(Region* region);
  // Returns null if the plugin does not accept the request at present.
  Result<Request*> post(void* data, size_t bytes, Region* memory);
  Result<Request*> flush(void* data, size_t bytes, Region* memory);
  Result<net::Completion> test(Request& request);
  int waitFd() const { return waitFd_.get(); }  // -1 if the caller must poll
  Result<bool> arm();
  Context& context() { return context_; }

 private:
  class ExclusiveUse;  // detects two threads that use a connection at once
  static constexpr size_t kMaxRequests = 64;

  void checkMemory(const void* data, size_t bytes, Region* memory) const;
  void checkCloseNotRequired() const;
  bool hangupHidden() const { return injector_->spec().hangupHidden > 0; }
  void touchBuffers();
  Result<net::Completion> testFlush();
  Status completeInner(Request& request);
  void corrupt(const Request& request);
  Status fail(Status why, bool oneSide);

  Context& context_;
  std::shared_ptr<net::PluginAdapter> adapter_;
  std::shared_ptr<FaultInjector> injector_;
  void* inner_;  // null after the wrapped connection is closed
  const bool sends_;
  FaultRandom random_;
  UniqueFd waitFd_;  // a duplicate; it stays valid after the wrapped connection is closed
  std::array<Request, kMaxRequests> requests_;
  Request flush_;  // the only flush that may be in progress
  uint64_t posted_ = 0, done_ = 0;
  std::map<Region*, std::unique_ptr<Region>> regions_;
  bool onlyCloseAllowed_ = false;  // the memory of a request in flight was deregistered: only a close is allowed
  bool messageLost_ = false;       // an injected loss happened: no later message arrives
  bool refusedLastPost_ = false;   // the last post was refused as an injected fault
  Status failure_;
  std::atomic<bool> used_{false};
};

}  // namespace bps::fault
