// Connection: one connection of the wrapped plugin, with faults. It also holds the caller to the interface's rules as
// the strictest of plugins may: registered memory, completions asked for in order, one thread at a time, nothing left
// open at the end. A breach is the fault of the code under test and ends the process by name.
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

// Ends the process: the caller broke the interface's rules.
[[noreturn]] void abortOnMisuse(const std::string& what);

class Connection;
class Context;

// A connection of the wrapped plugin.
struct WrappedComm {
  void* comm = nullptr;
  bool sends = false;
};

// Memory that the caller has registered.
struct Region {
  uint8_t* data = nullptr;
  size_t bytes = 0;
  void* inner = nullptr;
  uint8_t* gpu = nullptr;          // where the bytes of GPU memory are for this process; null: it is host memory
  std::vector<uint8_t> unflushed;  // what has come for it and has not been flushed, at the same offsets

  // Where the wrapped plugin finds or puts what the caller has at `data`.
  uint8_t* place(uint8_t* at, bool sends) {
    if (gpu == nullptr) return at;
    return (sends ? gpu : unflushed.data()) + (at - data);
  }
};

// What the caller knows as a request.
struct Request {
  Connection* owner = nullptr;
  void* inner = nullptr;
  uint8_t* data = nullptr;
  Region* memory = nullptr;
  bool live = false, complete = false;
  net::Completion completion;
  bool flushes = false;                             // and no message
  size_t bytes = 0;                                 // of the flush
  std::chrono::steady_clock::time_point visibleAt;  // when the caller may hear of it, once it is complete
};

class Connection {
 public:
  // Takes over the wrapped plugin's connection.
  Connection(Context& context, std::shared_ptr<net::PluginAdapter> adapter, std::shared_ptr<FaultInjector> injector,
             WrappedComm wrapped);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;
  ~Connection();

  Result<Region*> registerMemory(void* data, size_t bytes, bool onGpu);
  void deregister(Region* region);
  // Null: not now.
  Result<Request*> post(void* data, size_t bytes, Region* memory);
  Result<Request*> flush(void* data, size_t bytes, Region* memory);
  Result<net::Completion> test(Request& request);
  int waitFd() const { return waitFd_.get(); }  // -1: the caller must poll
  Result<bool> arm();
  Context& context() { return context_; }

 private:
  class ExclusiveUse;  // two at once are a breach
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
  void* inner_;  // null once it is closed
  const bool sends_;
  FaultRandom random_;
  UniqueFd waitFd_;  // a duplicate: stays valid when the wrapped connection has been closed
  std::array<Request, kMaxRequests> requests_;
  Request flush_;  // one at a time
  uint64_t posted_ = 0, done_ = 0;
  std::map<Region*, std::unique_ptr<Region>> regions_;
  bool onlyCloseAllowed_ = false;  // memory that a request uses is deregistered: only the close may follow
  bool messageLost_ = false;       // nothing comes any more
  bool refusedLastPost_ = false;   // the last post took nothing by our will
  Status failure_;
  std::atomic<bool> used_{false};
};

}  // namespace bps::fault
