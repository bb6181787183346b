#include "tests/fault_plugin/context.h"

#include <cstdlib>

#include "src/base/format.h"

namespace bps::fault {
namespace {

// Counts down the polls of a slow attempt. Returns true if the caller must poll again.
bool notYet(Attempt& attempt) { return attempt.pollsLeft-- > 0; }

}  // namespace

Result<std::unique_ptr<Context>> Context::open(uint64_t commId) {
  std::shared_ptr<FaultInjector> injector = BPS_TRY(FaultInjector::current());
  BPS_TRY(injector->count(Call::kInit));
  const char* wraps = std::getenv("FAULT_PLUGIN_WRAPS");
  Result<std::shared_ptr<net::PluginAdapter>> adapter = net::loadPluginAdapter(wraps != nullptr ? wraps : "", commId);
  if (!adapter.ok()) return std::move(adapter).status().within("wrapped by FAULT_PLUGIN_WRAPS");
  return std::unique_ptr<Context>(new Context(std::move(adapter).value(), std::move(injector)));
}

Context::~Context() {
  if (open_ > 0) abortOnMisuse(fmt::format("finalize with {} connections and listeners open", open_.load()));
}

Attempt Context::attempt() const {
  Attempt attempt{injector_->random(), 0};
  if (attempt.random.drawEvent(injector_->spec().slowChance)) attempt.pollsLeft = injector_->spec().slowPolls;
  return attempt;
}

Result<Listener*> Context::listen(int device, net::Handle& handle) {
  BPS_TRY(injector_->count(Call::kListen));
  void* inner = BPS_TRY(adapter_->listen(device, handle));
  ++open_;
  return new Listener{this, inner, attempt(), false};
}

Result<Connection*> Context::accept(Listener& listener) {
  if (!std::exchange(listener.counted, true)) BPS_TRY(injector_->count(Call::kAccept));
  if (notYet(listener.attempt)) return nullptr;
  void* inner = BPS_TRY(adapter_->accept(listener.inner));
  return inner != nullptr ? wrap(inner, false) : nullptr;
}

Result<Connection*> Context::connect(int device, net::Handle& handle) {
  MutexLock lock(mutex_);
  auto found = connecting_.find(&handle);
  if (found == connecting_.end()) {
    BPS_TRY(injector_->count(Call::kConnect));
    if (injector_->shouldRefuse()) return Status(Code::kRemote, "injected refusal of a connection");
    found = connecting_.emplace(&handle, attempt()).first;
  }
  if (notYet(found->second)) return nullptr;
  Result<void*> inner = adapter_->connect(device, handle);
  if (!inner.ok()) {
    connecting_.erase(found);
    return std::move(inner).status();
  }
  void* comm = std::move(inner).value();
  if (comm == nullptr) return nullptr;
  connecting_.erase(found);
  return wrap(comm, true);
}

Connection* Context::wrap(void* inner, bool sends) {
  ++open_;
  return new Connection(*this, adapter_, injector_, {inner, sends});
}

void Context::close(Listener* listener) {
  adapter_->close(listener->inner, net::RawKind::kListener);
  delete listener;
  --open_;
}

void Context::close(Connection* connection) {
  delete connection;
  --open_;
}

}  // namespace bps::fault
