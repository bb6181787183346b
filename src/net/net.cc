#include "src/net/net.h"

#include <algorithm>

#include "src/base/log.h"
#include "src/net/plugin_adapter.h"

namespace bps::net {

Comm::Comm(std::shared_ptr<PluginAdapter> adapter, void* raw, bool sends)
    : adapter_(std::move(adapter)), raw_(raw), sends_(sends), waitFd_(adapter_->waitFd(raw)) {}

// Deregisters the memory before it closes the connection, as NCCL does. If a connection with registrations is closed, a
// plugin may leave the memory registered and its pages pinned.
Comm::~Comm() {
  for (void* memory : registered_) adapter_->deregister(raw_, memory);
  adapter_->close(raw_, sends_ ? RawKind::kSend : RawKind::kReceive);
}

Result<void*> Comm::registerMemory(void* data, size_t bytes) {
  void* memory = BPS_TRY(adapter_->registerMemory(raw_, data, bytes));
  if (memory != nullptr) registered_.push_back(memory);
  return memory;
}

void Comm::deregister(void* memory) {
  const auto found = std::find(registered_.begin(), registered_.end(), memory);
  if (found == registered_.end()) return;
  registered_.erase(found);
  adapter_->deregister(raw_, memory);
}

GpuRegistrationModes Comm::gpuRegistrationModes(const GpuRegistrationModes& deviceModes) const {
  return adapter_->gpuRegistrationModes(raw_, deviceModes);
}

// Registers the memory as a dma-buf if possible, as NCCL does. If that fails, registers it by address, because a driver
// that supports dma-bufs may still reject the dma-buf of a GPU.
Result<void*> Comm::registerGpu(const GpuRegion& region, const GpuRegistrationModes& modes) {
  const bool asDmaBuf = modes.asDmaBuf && region.dmaBuf >= 0;
  if (!asDmaBuf && !modes.byAddress)
    return Status(Code::kInvalidUsage,
                  "the NIC accepts GPU memory only as dma-bufs, which the CUDA driver does not export");
  Result<void*> made = adapter_->registerGpu(raw_, region, asDmaBuf);
  if (!made.ok() && asDmaBuf && modes.byAddress) made = adapter_->registerGpu(raw_, region, false);
  void* memory = BPS_TRY(std::move(made));
  if (memory != nullptr) registered_.push_back(memory);
  return memory;
}

Request Comm::noted(void* raw) {
  awake_ = awake_ || needed_;
  armed_ = false;
  return Request{raw};
}

// If the connection is armed, an event has made it awake or will do so. A connection without a descriptor has no
// events, so it stays awake.
void Comm::setNeeded(bool needed) {
  needed_ = needed;
  if (!armed_) awake_ = needed || waitFd_ < 0;
}

Result<Request> Comm::flush(void* data, size_t bytes, void* memory) {
  return noted(BPS_TRY(adapter_->flush(raw_, data, bytes, memory)));
}

Result<Request> Comm::isend(const void* data, size_t bytes, void* memory) {
  // The plugin interface has no const pointers, but a send only reads the data.
  const Request request = noted(BPS_TRY(adapter_->isend(raw_, const_cast<void*>(data), bytes, memory)));
  if (!request) return request;
  ++messagesSent_;
  if (NetCounters* const counters = adapter_->counters()) {
    counters->messagesSent.add();
    counters->bytesSent.add(bytes);
  }
  return request;
}

void Comm::noteReceived(size_t bytes) const {
  if (NetCounters* const counters = adapter_->counters()) counters->bytesReceived.add(bytes);
}

Result<Request> Comm::irecv(void* data, size_t bytes, void* memory) {
  return noted(BPS_TRY(adapter_->irecv(raw_, data, bytes, memory)));
}

Result<Completion> Comm::test(Request request) {
  armed_ = false;
  return adapter_->test(request.raw);
}

int Comm::maxRequests() const { return adapter_->maxRequests(); }

Result<std::unique_ptr<Comm>> Comm::reverse() {
  void* other = BPS_TRY(adapter_->reverse(raw_));
  return other != nullptr ? std::make_unique<Comm>(adapter_, other, !sends_) : nullptr;
}

Result<bool> Comm::arm() {
  const bool ready = BPS_TRY(adapter_->arm(raw_));
  armed_ = !ready;
  return ready;
}

Listener::Listener(std::shared_ptr<PluginAdapter> adapter, void* raw, const Handle& handle)
    : adapter_(std::move(adapter)), raw_(raw), handle_(handle) {}

Listener::~Listener() { adapter_->close(raw_, RawKind::kListener); }

Result<std::unique_ptr<Comm>> Listener::accept() {
  void* comm = BPS_TRY(adapter_->accept(raw_));
  return comm != nullptr ? std::make_unique<Comm>(adapter_, comm, false) : nullptr;
}

Connector::Connector(std::shared_ptr<PluginAdapter> adapter, int device, const Handle& handle)
    : adapter_(std::move(adapter)), device_(device), handle_(handle) {}

Result<std::unique_ptr<Comm>> Connector::connect() {
  void* comm = BPS_TRY(adapter_->connect(device_, handle_));
  return comm != nullptr ? std::make_unique<Comm>(adapter_, comm, true) : nullptr;
}

Result<std::shared_ptr<Plugin>> Plugin::load(const std::string& name, uint64_t commId) {
  auto plugin = std::make_shared<Plugin>(BPS_TRY(loadPluginAdapter(name, commId)));
  logInfo(Subsystem::kNet, "net plugin {} with {} devices", plugin->description(), plugin->deviceCount());
  return plugin;
}

Plugin::Plugin(std::shared_ptr<PluginAdapter> adapter) : adapter_(std::move(adapter)) {}

const std::string& Plugin::description() const { return adapter_->description(); }

bool Plugin::canReverse() const { return adapter_->canReverse(); }

int Plugin::deviceCount() const { return adapter_->deviceCount(); }

Result<DeviceInfo> Plugin::device(int index) const { return adapter_->device(index); }

Result<std::optional<int>> Plugin::find(const std::string& name, const std::string& busId) const {
  for (int i = 0; i < deviceCount(); ++i) {
    const DeviceInfo found = BPS_TRY(device(i));
    const bool byName = !name.empty() && found.name == name;
    if (byName || (!busId.empty() && found.pciPath.ends_with("/" + busId))) return std::optional<int>(i);
  }
  return std::optional<int>();
}

void Plugin::countInto(std::shared_ptr<NetCounters> counters) { adapter_->countInto(std::move(counters)); }

Result<std::unique_ptr<Listener>> Plugin::listen(int device) {
  Handle handle{};
  void* raw = BPS_TRY(adapter_->listen(device, handle));
  return std::make_unique<Listener>(adapter_, raw, handle);
}

std::unique_ptr<Connector> Plugin::connect(int device, const Handle& handle) {
  return std::make_unique<Connector>(adapter_, device, handle);
}

}  // namespace bps::net
