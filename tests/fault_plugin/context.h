// Context: one init of the fault plugin, with a context of the wrapped plugin and its connections.
#pragma once
#include <atomic>
#include <map>
#include <memory>

#include "src/base/mutex.h"
#include "tests/fault_plugin/connection.h"

namespace bps::fault {

// An attempt to connect or accept, and how many calls still return "not yet".
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
  // Loads the plugin named by FAULT_PLUGIN_WRAPS as BPS_NET_PLUGIN would; if it is not set, bps's own plugin.
  static Result<std::unique_ptr<Context>> open(uint64_t commId);
  // All connections and listeners of the context must be closed first.
  ~Context();

  net::PluginAdapter& adapter() { return *adapter_; }
  Result<Listener*> listen(int device, net::Handle& handle);
  Result<Connection*> accept(Listener& listener);                // null: not yet
  Result<Connection*> connect(int device, net::Handle& handle);  // null: not yet
  void close(Listener* listener);
  void close(Connection* connection);

 private:
  Context(std::shared_ptr<net::PluginAdapter> adapter, std::shared_ptr<FaultInjector> injector)
      : adapter_(std::move(adapter)), injector_(std::move(injector)) {}
  Attempt attempt() const;
  Connection* wrap(void* inner, bool sends);

  std::shared_ptr<net::PluginAdapter> adapter_;
  std::shared_ptr<FaultInjector> injector_;
  std::atomic<int> open_{0};  // connections and listeners
  Mutex mutex_;
  std::map<const void*, Attempt> connecting_ BPS_GUARDED_BY(mutex_);  // by the handle, which the caller keeps
};

}  // namespace bps::fault
