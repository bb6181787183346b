#include "src/net/plugin_adapter.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <climits>
#include <set>

#include "net_plugin/abi.h"
#include "src/base/format.h"
#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/net/plugin_log.h"

namespace bps::net {
namespace {

// The maximum number of posted requests per connection. Every plugin supports 8 requests, which is NCCL's limit.
constexpr int kMaxRequestsForeign = 8, kMaxRequestsBps = 32;
constexpr size_t kMaxBytesUnknown = size_t{1} << 30;

GpuRegistrationModes gpuRegistrationModesOf(int pointers) {
  return {.byAddress = (pointers & abi::kPtrCuda) != 0, .asDmaBuf = (pointers & abi::kPtrDmaBuf) != 0};
}

int ignoreProfilerEvent(void**, int, void*, int64_t, void*) { return abi::kSuccess; }

// Serializes the calls of init and finalize of all plugins, because a plugin need not support concurrent calls of init
// and finalize.
Mutex& initMutex() {
  static Mutex& mutex = *new Mutex;
  return mutex;
}

// The plugin tables that are initialised. Tables of version 10 or older have no context and no finalize, so their init
// runs only once per process.
std::set<const void*>& initialised() {
  static std::set<const void*>& tables = *new std::set<const void*>;
  return tables;
}

template <int V>
class VersionedPluginAdapter final : public PluginAdapter {
 public:
  VersionedPluginAdapter(const abi::Net<V>* table, void* library, const std::string& path)
      : table_(table), head_(table->head) {
    name_ = head_.name != nullptr ? head_.name : "?";
    description_ = fmt::format("{} v{} ({})", name_, V, path);
    maxRequests_ = name_ == "bps" ? kMaxRequestsBps : kMaxRequestsForeign;
    wait_ = static_cast<const bpsNetWait_v1_t*>(::dlsym(library, "bpsNetWait_v1"));
    memory_ = static_cast<const bpsNetMemory_v1_t*>(::dlsym(library, "bpsNetMemory_v1"));
    reverse_ = static_cast<const bpsNetReverse_v1_t*>(::dlsym(library, "bpsNetReverse_v1"));
  }

  ~VersionedPluginAdapter() override {
    if constexpr (V >= 11) {
      MutexLock lock(initMutex());
      PluginCall call;
      if (ready_) report(call.outcome(table_->tail.finalize(context_), name_, "finalize"));
    }
  }

  Status init(uint64_t commId) override {
    MutexLock lock(initMutex());
    BPS_TRY(checkMembers(false));
    BPS_TRY(initOnce(commId));
    BPS_TRY(checkMembers(true));
    ready_ = true;
    PluginCall call;
    if (memory_ != nullptr) BPS_TRY(call.outcome(memory_->asksEach(context_), name_, "asksEach"));
    BPS_TRY(call.outcome(head_.devices(&deviceCount_), name_, "devices"));
    if (deviceCount_ < 1) return failure(Code::kSystem, "net plugin {}: found no device", name_);
    return {};
  }

  Result<DeviceInfo> device(int index) override {
    abi::Properties<V> properties{};
    PluginCall call;
    BPS_TRY(call.outcome(head_.getProperties(index, &properties), name_, "getProperties"));
    if (properties.deviceType != 0 || (properties.ptrSupport & abi::kPtrHost) == 0)
      return failure(Code::kSystem, "net plugin {}: device {} cannot send host memory", name_, index);
    DeviceInfo info;
    info.name = properties.name != nullptr ? properties.name : "";
    info.pciPath = properties.pciPath != nullptr ? properties.pciPath : "";
    info.speedMbps = properties.speed;
    if (head_.iflush != nullptr)
      info.gpu = gpuRegistrationModesOf(properties.ptrSupport & ~(head_.regMrDmaBuf == nullptr ? abi::kPtrDmaBuf : 0));
    info.maxBytes = kMaxBytesUnknown;
    if constexpr (V >= 9)
      if (properties.maxP2pBytes > 0) info.maxBytes = std::min<size_t>(properties.maxP2pBytes, INT_MAX);
    return info;
  }

  Result<void*> listen(int device, Handle& handle) override {
    void* comm = nullptr;
    PluginCall call;
    int code = 0;
    if constexpr (V >= 11) code = head_.listen(context_, device, handle.data(), &comm);
    else code = head_.listen(device, handle.data(), &comm);
    BPS_TRY(call.outcome(code, name_, "listen"));
    if (comm == nullptr) return failure(Code::kInternal, "net plugin {}: listen returned no listener", name_);
    return comm;
  }

  Result<void*> connect(int device, Handle& handle) override {
    void* comm = nullptr;
    abi::DeviceHandle* deviceHandle = nullptr;
    [[maybe_unused]] abi::Config config{abi::kUndefinedId};
    PluginCall call;
    int code = 0;
    if constexpr (V >= 11) code = head_.connect(context_, device, handle.data(), &comm, &deviceHandle);
    else if constexpr (V == 10) code = head_.connect(device, &config, handle.data(), &comm, &deviceHandle);
    else code = head_.connect(device, handle.data(), &comm, &deviceHandle);
    BPS_TRY(call.outcome(code, name_, "connect"));
    return comm;
  }

  Result<void*> accept(void* listener) override {
    void* comm = nullptr;
    abi::DeviceHandle* deviceHandle = nullptr;
    PluginCall call;
    BPS_TRY(call.outcome(head_.accept(listener, &comm, &deviceHandle), name_, "accept"));
    return comm;
  }

  Result<void*> registerMemory(void* comm, void* data, size_t bytes) override {
    void* memory = nullptr;
    PluginCall call;
    BPS_TRY(call.outcome(head_.regMr(comm, data, bytes, abi::kPtrHost, &memory), name_, "regMr"));
    return memory;
  }
  Result<void*> registerGpu(void* comm, const GpuRegion& region, bool asDmaBuf) override {
    void* memory = nullptr;
    PluginCall call;
    if (!asDmaBuf) {
      const int code = head_.regMr(comm, region.data, region.bytes, abi::kPtrCuda, &memory);
      BPS_TRY(call.outcome(code, name_, "regMr of GPU memory"));
    } else {
      const int code = head_.regMrDmaBuf(comm, region.data, region.bytes, abi::kPtrCuda, 0, region.dmaBuf, &memory);
      BPS_TRY(call.outcome(code, name_, "regMrDmaBuf"));
    }
    return memory;
  }
  void deregister(void* comm, void* memory) override {
    PluginCall call;
    report(call.outcome(head_.deregMr(comm, memory), name_, "deregMr"));
  }

  Result<void*> isend(void* comm, void* data, size_t bytes, void* memory) override {
    void* request = nullptr;
    BPS_TRY(checkSize(bytes));
    const auto size = static_cast<typename abi::Signatures<V>::Size>(bytes);
    PluginCall call;
    int code = 0;
    if constexpr (V >= 10) code = head_.isend(comm, data, size, 0, memory, nullptr, &request);
    else code = head_.isend(comm, data, size, 0, memory, &request);
    BPS_TRY(call.outcome(code, name_, "isend"));
    return request;
  }

  Result<void*> irecv(void* comm, void* data, size_t bytes, void* memory) override {
    void* request = nullptr;
    BPS_TRY(checkSize(bytes));
    auto size = static_cast<typename abi::Signatures<V>::Size>(bytes);
    int tag = 0;
    [[maybe_unused]] void* phandle = nullptr;
    PluginCall call;
    int code = 0;
    if constexpr (V >= 10) code = head_.irecv(comm, 1, &data, &size, &tag, &memory, &phandle, &request);
    else code = head_.irecv(comm, 1, &data, &size, &tag, &memory, &request);
    BPS_TRY(call.outcome(code, name_, "irecv"));
    return request;
  }

  Result<void*> flush(void* comm, void* data, size_t bytes, void* memory) override {
    void* request = nullptr;
    BPS_TRY(checkSize(bytes));
    int size = static_cast<int>(bytes);
    PluginCall call;
    BPS_TRY(call.outcome(head_.iflush(comm, 1, &data, &size, &memory, &request), name_, "iflush"));
    return request;
  }

  Result<Completion> test(void* request) override {
    int done = 0, bytes = 0;
    PluginCall call;
    BPS_TRY(call.outcome(head_.test(request, &done, &bytes), name_, "test"));
    return Completion{done != 0, static_cast<size_t>(bytes)};
  }

  void close(void* raw, RawKind kind) override {
    PluginCall call;
    const auto function = kind == RawKind::kSend      ? head_.closeSend
                          : kind == RawKind::kReceive ? head_.closeRecv
                                                      : head_.closeListen;
    report(call.outcome(function(raw), name_, "close"));
  }

 private:
  Status initOnce(uint64_t commId) BPS_REQUIRES(initMutex()) {
    PluginCall call;
    if constexpr (V >= 11) {
      abi::Config config{abi::kUndefinedId};
      return call.outcome(head_.init(&context_, commId, &config, pluginLogger(), ignoreProfilerEvent), name_, "init");
    } else {
      if (initialised().count(table_) > 0) return {};
      int code = 0;
      if constexpr (V == 10) code = head_.init(pluginLogger(), ignoreProfilerEvent);
      else code = head_.init(pluginLogger());
      BPS_TRY(call.outcome(code, name_, "init"));
      initialised().insert(table_);
      return {};
    }
  }

  Status checkMembers(bool initialised) const {
    const char* missing = abi::missingMember(*table_, initialised);
    if (missing == nullptr) return {};
    return failure(Code::kInvalidArgument, "net plugin {}: {} is null in its table of version {}", name_, missing, V);
  }

  // The plugin's test function returns sizes as int. Tables of version 8 also take sizes as int.
  Status checkSize(size_t bytes) const {
    if (bytes <= INT_MAX) return {};
    return failure(Code::kInvalidArgument, "net plugin {}: a message of {} bytes exceeds the limit of {} bytes", name_,
                   bytes, INT_MAX);
  }

  static void report(const Status& outcome) {
    if (!outcome.ok()) logWarn(Subsystem::kNet, "{}", outcome.message());
  }

  const abi::Net<V>* table_;
  const abi::Head<V>& head_;
  void* context_ = nullptr;
  bool ready_ = false;
};

template <int V>
std::shared_ptr<PluginAdapter> tryCreateAdapter(void* library, const std::string& path) {
  const std::string symbol = fmt::format("ncclNetPlugin_v{}", V);
  const auto* table = static_cast<const abi::Net<V>*>(::dlsym(library, symbol.c_str()));
  return table != nullptr ? std::make_shared<VersionedPluginAdapter<V>>(table, library, path) : nullptr;
}

}  // namespace

GpuRegistrationModes PluginAdapter::gpuRegistrationModes(void* comm, const GpuRegistrationModes& deviceModes) const {
  int pointers = 0;
  if (memory_ == nullptr || !deviceModes) return deviceModes;
  if (memory_->supported(comm, &pointers) != abi::kSuccess) return {};
  const GpuRegistrationModes modes = gpuRegistrationModesOf(pointers);
  return {modes.byAddress && deviceModes.byAddress, modes.asDmaBuf && deviceModes.asDmaBuf};
}

int PluginAdapter::waitFd(void* comm) const {
  int fd = -1;
  return wait_ != nullptr && wait_->waitFd(comm, &fd) == abi::kSuccess ? fd : -1;
}

Result<bool> PluginAdapter::arm(void* comm) const {
  int ready = 1;
  PluginCall call;
  if (wait_ != nullptr) BPS_TRY(call.outcome(wait_->arm(comm, &ready), name_, "arm"));
  return ready != 0;
}

Result<void*> PluginAdapter::reverse(void* comm) const {
  void* other = nullptr;
  PluginCall call;
  if (reverse_ != nullptr) BPS_TRY(call.outcome(reverse_->reverse(comm, &other), name_, "reverse"));
  return other;
}

Result<std::shared_ptr<PluginAdapter>> createPluginAdapter(void* library, const std::string& path, int newest) {
  using Maker = std::shared_ptr<PluginAdapter> (*)(void*, const std::string&);
  constexpr std::array<Maker, kNewestVersion - kOldestVersion + 1> kMakers{
      tryCreateAdapter<8>, tryCreateAdapter<9>, tryCreateAdapter<10>, tryCreateAdapter<11>, tryCreateAdapter<12>};
  for (int version = newest; version >= kOldestVersion; --version)
    if (std::shared_ptr<PluginAdapter> adapter = kMakers[static_cast<size_t>(version - kOldestVersion)](library, path))
      return adapter;
  return failure(Code::kInvalidArgument, "exports no ncclNetPlugin of version {} to {}", kOldestVersion,
                 kNewestVersion);
}

}  // namespace bps::net
