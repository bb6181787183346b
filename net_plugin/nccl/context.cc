#include "net_plugin/nccl/context.h"

#include <algorithm>

#include "net_plugin/log.h"
#include "src/base/env.h"
#include "src/base/format.h"

namespace bps::plugin::nccl {
namespace {

// The state that all contexts of this process share. The device list is filled once and never
// changes afterwards, so pointers to devices stay valid.
struct Process {
  Mutex mutex;
  std::vector<link::Device> devices BPS_GUARDED_BY(mutex);
  std::vector<std::unique_ptr<Context>> contexts BPS_GUARDED_BY(mutex);
  Context* shared BPS_GUARDED_BY(mutex) = nullptr;
};

// The state is never destroyed. If a process ends without calling finalize(), other threads may
// still be inside the plugin.
Process& process() {
  static Process& instance = *new Process;
  return instance;
}

Status findDevicesOnce(Process& all, const Env& env) BPS_REQUIRES(all.mutex) {
  if (!all.devices.empty()) return {};
  all.devices = BPS_TRY(link::findDevices(env));
  return {};
}

Result<Context*> addContext(Process& all) BPS_REQUIRES(all.mutex) {
  const Env env = BPS_TRY(processEnv(logEnvWarning));
  BPS_TRY(findDevicesOnce(all, env));
  const Context::Options options{.connectTime = std::chrono::duration<double>(env.timeout.value),
                                 .sharedMemory = !env.shmDisable};
  all.contexts.push_back(std::make_unique<Context>(options));
  return all.contexts.back().get();
}

}  // namespace

// Shared memory connections support only host memory. If a device supports GPU memory, a caller may
// register GPU memory with every connection of the device. A device that supports GPU memory
// therefore uses shared memory only if the caller asks each connection which kinds of memory the
// connection supports.
bool Context::canUseSharedMemory(const link::Device& device) const {
  return options_.sharedMemory && (asksEach_ || device.ptrSupport() == abi::kPtrHost);
}

Result<Context::Attempts::iterator> Context::findOrStartConnect(const link::Device& device,
                                                                std::span<const uint8_t> handle) {
  const link::ConnectTarget target = BPS_TRY(link::parseTarget(handle, canUseSharedMemory(device)));
  const auto found = attempts_.find(target.remote.token);
  if (found != attempts_.end()) return found;
  std::erase_if(attempts_, [](const auto& entry) { return entry.second->expired(); });
  const Deadline deadline = Deadline::in(std::chrono::duration_cast<std::chrono::nanoseconds>(options_.connectTime));
  return attempts_.emplace(target.remote.token, std::make_unique<link::Connector>(device, target, deadline)).first;
}

Result<std::unique_ptr<Comm>> Context::connect(const link::Device& device, std::span<const uint8_t> handle) {
  MutexLock lock(mutex_);
  const Attempts::iterator attempt = BPS_TRY(findOrStartConnect(device, handle));
  Result<std::unique_ptr<Comm>> outcome = attempt->second->step();
  if (!outcome.ok()) {
    attempts_.erase(attempt);
    return outcome;
  }
  std::unique_ptr<Comm> comm = std::move(outcome).value();
  if (comm) attempts_.erase(attempt);
  return comm;
}

Result<std::unique_ptr<link::Listener>> Context::listen(const link::Device& device) const {
  return link::Listener::create(device, canUseSharedMemory(device));
}

Result<Context*> openContext(abi::Logger logger) {
  Process& all = process();
  MutexLock lock(all.mutex);
  if (logger != nullptr) setLogger(logger);  // set before the steps that may fail, so that the caller sees their errors
  Context* context = BPS_TRY(addContext(all));
  context->setLogger(logger);
  return context;
}

Result<Context*> sharedContext(abi::Logger logger) {
  Process& all = process();
  MutexLock lock(all.mutex);
  if (logger != nullptr) setLogger(logger);
  if (all.shared == nullptr) all.shared = BPS_TRY(addContext(all));
  if (logger != nullptr) all.shared->setLogger(logger);
  return all.shared;
}

void closeContext(void* context) {
  Process& all = process();
  MutexLock lock(all.mutex);
  if (context == all.shared) return;
  const size_t closed =
      std::erase_if(all.contexts, [&](const std::unique_ptr<Context>& each) { return each.get() == context; });
  if (closed > 0) setLogger(all.contexts.empty() ? nullptr : all.contexts.back()->logger());
}

Result<Context*> findContext(void* context) {
  Process& all = process();
  MutexLock lock(all.mutex);
  for (const std::unique_ptr<Context>& each : all.contexts)
    if (each.get() == context) return each.get();
  return Status(Code::kInvalidArgument, "the context does not come from init, or finalize has closed it");
}

size_t deviceCount() {
  Process& all = process();
  MutexLock lock(all.mutex);
  return all.devices.size();
}

Result<const link::Device*> deviceAt(int index) {
  Process& all = process();
  MutexLock lock(all.mutex);
  if (index < 0 || static_cast<size_t>(index) >= all.devices.size())
    return failure(Code::kInvalidArgument, "device {} does not exist (init found {})", index, all.devices.size());
  return &all.devices[static_cast<size_t>(index)];
}

}  // namespace bps::plugin::nccl
