// Context: the result of one init of the fault plugin. A Context has a context of the wrapped
// plugin, and it makes connections.
#pragma once
#include <atomic>
#include <map>
#include <memory>

#include "src/base/mutex.h"
#include "tests/fault_plugin/connection.h"

namespace bps::fault {

// An attempt to connect or accept. `pollsLeft` counts the polls that will still report "not yet".
struct Attempt {
  FaultRandom random;
  double pollsLeft = 0;
};

class Context;

struct Listener {
  Context* context = nullptr;
  void* inner = nullptr;
  Attempt attempt;
  bool counted = false;
};

class Context {
 public:
  // Loads the plugin that FAULT_PLUGIN_WRAPS names, by the rules for BPS_NET_PLUGIN. If the
  // variable is not set, loads bps's own plugin.
  static Result<std::unique_ptr<Context>> open(uint64_t commId);
  // The caller must first close all connections and listeners of the context.
  ~Context();

  net::PluginAdapter& adapter() { return *adapter_; }
  Result<Listener*> listen(int device, net::Handle& handle);
  Result<Connection*> accept(Listener& listener);                // null if the connection is not yet accepted
  Result<Connection*> connect(int device, net::Handle& handle);  // null if the connection is not yet made
  void close(Listener* listener);
  void close(Connection* connection);

 private:
  Context(std::shared_ptr<net::PluginAdapter> adapter, std::shared_ptr<FaultInjector> injector)
      : adapter_(std::move(adapter)), injector_(std::move(injector)) {}
  Attempt attempt() const;
  Connection* wrap(void* inner, bool sends);

  std::shared_ptr<net::PluginAdapter> adapter_;
  std::shared_ptr<FaultInjector> injector_;
  std::atomic<int> open_{0};  // the number of open connections and listeners
  Mutex mutex_;
  std::map<const void*, Attempt> connecting_ BPS_GUARDED_BY(mutex_);  // the key is the address of the caller's handle
};

}  // namespace bps::fault
