#include "src/net/net.h"

#include <algorithm>

#include "src/base/log.h"
#include "src/net/driver.h"

namespace bps::net {

Comm::Comm(std::shared_ptr<Driver> driver, void* raw, bool sends)
    : driver_(std::move(driver)), raw_(raw), sends_(sends), waitFd_(driver_->waitFd(raw)) {}

// As NCCL does: transports leave what is registered at the close with the device, pages and all.
Comm::~Comm() {
  for (void* memory : registered_) driver_->deregister(raw_, memory);
  driver_->close(raw_, sends_ ? RawKind::kSend : RawKind::kReceive);
}

Result<void*> Comm::registerMemory(void* data, size_t bytes) {
  void* memory = BPS_TRY(driver_->registerMemory(raw_, data, bytes));
  if (memory != nullptr) registered_.push_back(memory);
  return memory;
}

void Comm::deregister(void* memory) {
  const auto found = std::find(registered_.begin(), registered_.end(), memory);
  if (found == registered_.end()) return;
  registered_.erase(found);
  driver_->deregister(raw_, memory);
}

GpuWays Comm::gpuWays(const GpuWays& ofDevice) const { return driver_->gpuWays(raw_, ofDevice); }

// As NCCL: as a dma-buf where both sides know it; but that the device's driver knows dma-bufs does not say that it
// takes a GPU's.
Result<void*> Comm::registerGpu(const GpuRegion& region, const GpuWays& ways) {
  const bool asDmaBuf = ways.asDmaBuf && region.dmaBuf >= 0;
  if (!asDmaBuf && !ways.byAddress)
    return Status(Code::kInvalidUsage,
                  "the NIC takes GPU memory as dma-bufs only, which the CUDA driver does not give");
  Result<void*> made = driver_->registerGpu(raw_, region, asDmaBuf);
  if (!made.ok() && asDmaBuf && ways.byAddress) made = driver_->registerGpu(raw_, region, false);
  void* memory = BPS_TRY(std::move(made));
  if (memory != nullptr) registered_.push_back(memory);
  return memory;
}

Result<Request> Comm::flush(void* data, size_t bytes, void* memory) {
  awake_ = true;
  return Request{BPS_TRY(driver_->flush(raw_, data, bytes, memory))};
}

Result<Request> Comm::isend(const void* data, size_t bytes, void* memory) {
  awake_ = true;
  // The interface takes a pointer to non-const for both directions; sending only reads.
  return Request{BPS_TRY(driver_->isend(raw_, const_cast<void*>(data), bytes, memory))};
}

Result<Request> Comm::irecv(void* data, size_t bytes, void* memory) {
  awake_ = true;
  return Request{BPS_TRY(driver_->irecv(raw_, data, bytes, memory))};
}

Result<Completion> Comm::test(Request request) { return driver_->test(request.raw); }

int Comm::maxRequests() const { return driver_->maxRequests(); }

Result<std::unique_ptr<Comm>> Comm::reverse() {
  void* other = BPS_TRY(driver_->reverse(raw_));
  return other != nullptr ? std::make_unique<Comm>(driver_, other, !sends_) : nullptr;
}

Result<bool> Comm::arm() { return driver_->arm(raw_); }

Listener::Listener(std::shared_ptr<Driver> driver, void* raw, const Handle& handle)
    : driver_(std::move(driver)), raw_(raw), handle_(handle) {}

Listener::~Listener() { driver_->close(raw_, RawKind::kListener); }

Result<std::unique_ptr<Comm>> Listener::accept() {
  void* comm = BPS_TRY(driver_->accept(raw_));
  return comm != nullptr ? std::make_unique<Comm>(driver_, comm, false) : nullptr;
}

Connector::Connector(std::shared_ptr<Driver> driver, int device, const Handle& handle)
    : driver_(std::move(driver)), device_(device), handle_(handle) {}

Result<std::unique_ptr<Comm>> Connector::connect() {
  void* comm = BPS_TRY(driver_->connect(device_, handle_));
  return comm != nullptr ? std::make_unique<Comm>(driver_, comm, true) : nullptr;
}

Result<std::shared_ptr<Plugin>> Plugin::load(const std::string& name, uint64_t commId) {
  auto plugin = std::make_shared<Plugin>(BPS_TRY(loadDriver(name, commId)));
  logInfo(Subsystem::kNet, "net plugin {} with {} devices", plugin->description(), plugin->deviceCount());
  return plugin;
}

Plugin::Plugin(std::shared_ptr<Driver> driver) : driver_(std::move(driver)) {}

const std::string& Plugin::description() const { return driver_->description(); }

bool Plugin::canReverse() const { return driver_->canReverse(); }

int Plugin::deviceCount() const { return driver_->deviceCount(); }

Result<DeviceInfo> Plugin::device(int index) const { return driver_->device(index); }

Result<std::optional<int>> Plugin::find(const std::string& name, const std::string& busId) const {
  for (int i = 0; i < deviceCount(); ++i) {
    const DeviceInfo found = BPS_TRY(device(i));
    const bool byName = !name.empty() && found.name == name;
    if (byName || (!busId.empty() && found.pciPath.ends_with("/" + busId))) return std::optional<int>(i);
  }
  return std::optional<int>();
}

Result<std::unique_ptr<Listener>> Plugin::listen(int device) {
  Handle handle{};
  void* raw = BPS_TRY(driver_->listen(device, handle));
  return std::make_unique<Listener>(driver_, raw, handle);
}

std::unique_ptr<Connector> Plugin::connect(int device, const Handle& handle) {
  return std::make_unique<Connector>(driver_, device, handle);
}

}  // namespace bps::net
