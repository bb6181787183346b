#include "src/cuda/device.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <fstream>
#include <map>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/cuda/pinned_memory.h"

namespace bps::cuda {
namespace {

struct Registry {
  Mutex mutex;
  std::map<int, std::unique_ptr<Device>> devices BPS_GUARDED_BY(mutex);
};

// Returns the NUMA node that the kernel reports for the device's bus id, or -1.
int numaNodeOfGpu(const Api& api, int ordinal) {
  std::ifstream file("/sys/bus/pci/devices/" + Device::busId(api, ordinal) + "/numa_node");
  int node = -1;
  return file >> node ? node : -1;
}

}  // namespace

Result<int> Device::count(const Api& api) {
  int count = 0;
  BPS_TRY(check(api, api.deviceGetCount(&count), "cuDeviceGetCount"));
  return count;
}

Result<int> Device::current(const Api& api) {
  Context context = nullptr;
  int device = 0;
  BPS_TRY(check(api, api.ctxGetCurrent(&context), "cuCtxGetCurrent"));
  if (context != nullptr) BPS_TRY(check(api, api.ctxGetDevice(&device), "cuCtxGetDevice"));
  return device;
}

bool Device::hasActiveContext(const Api& api, int ordinal) {
  Context context = nullptr;
  if (api.ctxGetCurrent(&context) == kSuccess && context != nullptr) return true;
  unsigned flags = 0;
  int active = 0;
  return api.devicePrimaryCtxGetState(ordinal, &flags, &active) == kSuccess && active != 0;
}

std::string Device::busId(const Api& api, int ordinal) {
  int handle = 0;
  std::array<char, 32> text{};
  if (api.deviceGet(&handle, ordinal) != kSuccess ||
      api.deviceGetPCIBusId(text.data(), text.size(), handle) != kSuccess)
    return {};
  std::string busId = text.data();
  std::transform(busId.begin(), busId.end(), busId.begin(), [](unsigned char c) { return std::tolower(c); });
  return busId;
}

Result<Device*> Device::open(const Api& api, int ordinal) {
  static auto* registry = new Registry;  // lives as long as the process, see driver()
  MutexLock lock(registry->mutex);
  std::unique_ptr<Device>& device = registry->devices[ordinal];
  if (device != nullptr) return device.get();
  int handle = 0;
  Context context = nullptr;
  BPS_TRY(check(api, api.deviceGet(&handle, ordinal), "cuDeviceGet"));
  BPS_TRY(check(api, api.devicePrimaryCtxRetain(&context, handle), "cuDevicePrimaryCtxRetain"));
  std::unique_ptr<Device> opened(new Device(api, ordinal, context));
  opened->numaNode_ = numaNodeOfGpu(api, ordinal);
  opened->hasStreamMemOps_ = opened->probeStreamMemOps();
  device = std::move(opened);
  return device.get();
}

Status Device::checkStreamMemOps() const {
  if (hasStreamMemOps_) return {};
  return failure(Code::kUnhandledCuda, "CUDA device {} has no stream memory operations, which bps needs", ordinal_);
}

// The driver has no query for stream memory operations. The probe therefore lets a stream write a value and wait for
// it.
bool Device::probeStreamMemOps() {
  if (api_.streamWaitValue32 == nullptr || api_.streamWriteValue32 == nullptr) return false;
  const ScopedContext scope(*this);
  Result<PinnedMemory> memory = PinnedMemory::create(*this, sizeof(uint32_t));
  if (!memory.ok()) return false;
  const PinnedMemory word = std::move(memory).value();
  Result<std::unique_ptr<OwnedStream>> created = OwnedStream::create(*this);
  if (!created.ok()) return false;
  const std::unique_ptr<OwnedStream> stream = std::move(created).value();
  return api_.streamWriteValue32(stream->get(), word.address(), 1, 0) == kSuccess &&
         api_.streamWaitValue32(stream->get(), word.address(), 1, kWaitGeq) == kSuccess &&
         api_.streamSynchronize(stream->get()) == kSuccess;
}

ScopedContext::ScopedContext(const Api& api, Context context) : api_(api) {
  api_.threadExchangeStreamCaptureMode(&captureMode_);
  pushed_ = api_.ctxPushCurrent(context) == kSuccess;  // if this fails, the next driver call reports why
}

ScopedContext::~ScopedContext() {
  if (pushed_) api_.ctxPopCurrent(nullptr);
  api_.threadExchangeStreamCaptureMode(&captureMode_);
}

Result<std::unique_ptr<OwnedStream>> OwnedStream::create(const Device& device, Use use) {
  const Api& api = device.api();
  const ScopedContext scope(device);
  int least = 0, greatest = 0;
  Stream stream = nullptr;
  BPS_TRY(check(api, api.ctxGetStreamPriorityRange(&least, &greatest), "cuCtxGetStreamPriorityRange"));
  const int priority = use == Use::kCopies ? greatest : least;
  BPS_TRY(check(api, api.streamCreateWithPriority(&stream, kNonBlocking, priority), "cuStreamCreateWithPriority"));
  return std::unique_ptr<OwnedStream>(new OwnedStream(device, stream));
}

OwnedStream::~OwnedStream() {
  const ScopedContext scope(device_);
  device_.api().streamDestroy(stream_);
}

Result<bool> OwnedStream::idle() const {
  const int state = device_.api().streamQuery(stream_);
  if (state == kNotReady) return false;
  BPS_TRY(check(device_.api(), state, "cuStreamQuery"));
  return true;
}

Result<OwnedEvent> OwnedEvent::create(const Device& device) {
  const ScopedContext scope(device);
  Event event = nullptr;
  BPS_TRY(check(device.api(), device.api().eventCreate(&event, kDisableTiming), "cuEventCreate"));
  return OwnedEvent(device, event);
}

OwnedEvent::~OwnedEvent() {
  if (event_ == nullptr) return;
  const ScopedContext scope(*device_);
  device_->api().eventDestroy(event_);
}

Status OwnedEvent::record(const OwnedStream& stream) {
  return check(device_->api(), device_->api().eventRecord(event_, stream.get()), "cuEventRecord");
}

Result<bool> OwnedEvent::passed() const {
  const int state = device_->api().eventQuery(event_);
  if (state == kNotReady) return false;
  BPS_TRY(check(device_->api(), state, "cuEventQuery"));
  return true;
}

}  // namespace bps::cuda
