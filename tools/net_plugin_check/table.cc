#include "tools/net_plugin_check/table.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

#include "src/base/format.h"
#include "src/base/mutex.h"

namespace bps::check {
namespace {

constexpr uint64_t kCommId = 0x62707363;

std::string& warning() {
  thread_local std::string text;
  return text;
}
std::atomic<bool>& verboseFlag() {
  static std::atomic<bool> verbose{false};
  return verbose;
}

Mutex& initMutex() {
  static Mutex& mutex = *new Mutex;
  return mutex;
}
// The initialised tables of interface versions before 11. Such a table is initialised only one time
// in a process.
std::set<const void*>& initialised() {
  static std::set<const void*>& tables = *new std::set<const void*>;
  return tables;
}

int ignoreEvent(void**, int, void*, int64_t, void*) { return abi::kSuccess; }

// Returns the text at `text`. Returns empty text if the pointer is null or still has the fill
// value.
std::string textAt(const char* text, int fill) {
  uintptr_t untouched = 0;
  std::memset(&untouched, fill, sizeof untouched);
  return text == nullptr || reinterpret_cast<uintptr_t>(text) == untouched ? "" : text;
}

}  // namespace

extern "C" __attribute__((format(printf, 5, 6))) void netPluginCheckLogger(int level, unsigned long, const char*, int,
                                                                           const char* format, ...) {
  std::array<char, 512> text{};
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text.data(), text.size(), format, arguments);
  va_end(arguments);
  if (verboseFlag()) fmt::print(stderr, "plugin: {}\n", text.data());
  if (level == abi::kLogWarn) warning() = text.data();
}

namespace {

template <int V>
class TableOf final : public Table {
 public:
  TableOf(const abi::Net<V>* table, const bpsNetWait_v1_t* wait) : table_(table), head_(table->head), wait_(wait) {}

  int version() const override { return V; }
  std::string name() const override { return head_.name != nullptr ? head_.name : ""; }
  bool canFlush() const override { return head_.iflush != nullptr; }
  bool canRegisterDmaBuf() const override { return head_.regMrDmaBuf != nullptr; }
  const bpsNetWait_v1_t* wait() const override { return wait_; }

  const char* missing(bool ready) const override { return abi::missingMember(*table_, ready); }

  int init(void** context) override {
    const MutexLock lock(initMutex());
    if (V < 11 && initialised().count(table_) > 0) return abi::kSuccess;
    const CallTimer watched(Call::kInit);
    [[maybe_unused]] abi::Config config{abi::kUndefinedId};
    int code = 0;
    if constexpr (V >= 11) code = head_.init(context, kCommId, &config, netPluginCheckLogger, ignoreEvent);
    else if constexpr (V == 10) code = head_.init(netPluginCheckLogger, ignoreEvent);
    else code = head_.init(netPluginCheckLogger);
    if (V < 11 && code == abi::kSuccess) initialised().insert(table_);
    return code;
  }

  int finalize([[maybe_unused]] void* context) override {
    const MutexLock lock(initMutex());
    const CallTimer watched(Call::kFinalize);
    if constexpr (V >= 11) return table_->tail.finalize(context);
    else return abi::kSuccess;
  }

  int devices(int* count) override {
    const CallTimer watched(Call::kDevices);
    return head_.devices(count);
  }

  int getProperties(int device, int fill, DeviceProperties& out) override {
    abi::Properties<V> in;
    std::memset(static_cast<void*>(&in), fill, sizeof in);
    const CallTimer watched(Call::kGetProperties);
    const int code = head_.getProperties(device, &in);
    if (code != abi::kSuccess) return code;
    out.name = textAt(in.name, fill);
    out.pciPath = textAt(in.pciPath, fill);
    out.ptrSupport = in.ptrSupport;
    out.speedMbps = in.speed;
    out.port = in.port;
    out.maxComms = in.maxComms;
    out.maxRecvs = in.maxRecvs;
    out.deviceType = in.deviceType;
    if constexpr (V >= 9) {
      out.virtualDevices = in.virtualDevice.count;
      out.maxBytes = in.maxP2pBytes;
      out.maxCollBytes = in.maxCollBytes;
    }
    return code;
  }

  int listen([[maybe_unused]] void* context, int device, void* handle, void** comm) override {
    const CallTimer watched(Call::kListen);
    if constexpr (V >= 11) return head_.listen(context, device, handle, comm);
    else return head_.listen(device, handle, comm);
  }

  int connect([[maybe_unused]] void* context, int device, void* handle, void** comm) override {
    const CallTimer watched(Call::kConnect);
    abi::DeviceHandle* deviceHandle = nullptr;
    [[maybe_unused]] abi::Config config{abi::kUndefinedId};
    if constexpr (V >= 11) return head_.connect(context, device, handle, comm, &deviceHandle);
    else if constexpr (V == 10) return head_.connect(device, &config, handle, comm, &deviceHandle);
    else return head_.connect(device, handle, comm, &deviceHandle);
  }

  int accept(void* listener, void** comm) override {
    const CallTimer watched(Call::kAccept);
    abi::DeviceHandle* deviceHandle = nullptr;
    return head_.accept(listener, comm, &deviceHandle);
  }

  int regMr(void* comm, void* data, size_t bytes, void** memory) override {
    const CallTimer watched(Call::kRegMr);
    return head_.regMr(comm, data, bytes, abi::kPtrHost, memory);
  }
  int regGpuMr(void* comm, const MessageBuffer& region, int dmaBuf, void** memory) override {
    const CallTimer watched(Call::kRegMr);
    if (dmaBuf < 0) return head_.regMr(comm, region.data, region.bytes, abi::kPtrCuda, memory);
    return head_.regMrDmaBuf(comm, region.data, region.bytes, abi::kPtrCuda, 0, dmaBuf, memory);
  }
  int deregMr(void* comm, void* memory) override {
    const CallTimer watched(Call::kDeregMr);
    return head_.deregMr(comm, memory);
  }

  int isend(void* comm, const MessageBuffer& piece, void** request) override {
    const CallTimer watched(Call::kIsend);
    const auto bytes = static_cast<Size>(piece.bytes);
    if constexpr (V >= 10) return head_.isend(comm, piece.data, bytes, piece.tag, piece.memory, nullptr, request);
    else return head_.isend(comm, piece.data, bytes, piece.tag, piece.memory, request);
  }

  int irecv(void* comm, std::span<const MessageBuffer> pieces, void** request) override {
    std::array<void*, kMaxGroupedReceives> data{}, memory{};
    [[maybe_unused]] std::array<void*, kMaxGroupedReceives> phandles{};
    std::array<Size, kMaxGroupedReceives> sizes{};
    std::array<int, kMaxGroupedReceives> tags{};
    const size_t n = std::min(pieces.size(), kMaxGroupedReceives);
    for (size_t i = 0; i < n; ++i) {
      data[i] = pieces[i].data;
      memory[i] = pieces[i].memory;
      sizes[i] = static_cast<Size>(pieces[i].bytes);
      tags[i] = pieces[i].tag;
    }
    const int count = static_cast<int>(n);
    const CallTimer watched(Call::kIrecv);
    if constexpr (V >= 10)
      return head_.irecv(comm, count, data.data(), sizes.data(), tags.data(), memory.data(), phandles.data(), request);
    else return head_.irecv(comm, count, data.data(), sizes.data(), tags.data(), memory.data(), request);
  }

  int iflush(void* comm, const MessageBuffer& piece, void** request) override {
    const CallTimer watched(Call::kIflush);
    void *data = piece.data, *memory = piece.memory;
    int bytes = static_cast<int>(piece.bytes);
    return head_.iflush(comm, 1, &data, &bytes, &memory, request);
  }

  int test(void* request, int* done, int* sizes) override {
    const CallTimer watched(Call::kTest);
    return head_.test(request, done, sizes);
  }

  int closeSend(void* comm) override {
    const CallTimer watched(Call::kCloseSend);
    return head_.closeSend(comm);
  }
  int closeRecv(void* comm) override {
    const CallTimer watched(Call::kCloseRecv);
    return head_.closeRecv(comm);
  }
  int closeListen(void* listener) override {
    const CallTimer watched(Call::kCloseListen);
    return head_.closeListen(listener);
  }

 private:
  using Size = typename abi::Signatures<V>::Size;

  const abi::Net<V>* table_;
  const abi::Head<V>& head_;
  const bpsNetWait_v1_t* wait_;
};

template <int V>
std::unique_ptr<Table> tableOf(void* library, int newest) {
  const auto* table =
      V <= newest ? static_cast<const abi::Net<V>*>(::dlsym(library, fmt::format("ncclNetPlugin_v{}", V).c_str()))
                  : nullptr;
  const auto* wait = static_cast<const bpsNetWait_v1_t*>(::dlsym(library, "bpsNetWait_v1"));
  if (table != nullptr) return std::make_unique<TableOf<V>>(table, wait);
  if constexpr (V > kOldestAbi) return tableOf<V - 1>(library, newest);
  else return nullptr;
}

bool isFileName(std::string_view name) {
  return name.find('/') != std::string_view::npos || (name.substr(0, 3) == "lib" && name.ends_with(".so"));
}

}  // namespace

const char* DeviceProperties::difference(const DeviceProperties& other) const {
  if (name != other.name) return "name";
  if (pciPath != other.pciPath) return "pciPath";
  if (ptrSupport != other.ptrSupport) return "ptrSupport";
  if (speedMbps != other.speedMbps) return "speed";
  if (port != other.port) return "port";
  if (maxComms != other.maxComms) return "maxComms";
  if (maxRecvs != other.maxRecvs) return "maxRecvs";
  if (deviceType != other.deviceType) return "netDeviceType";
  if (virtualDevices != other.virtualDevices) return "vProps.ndevs";
  if (maxBytes != other.maxBytes) return "maxP2pBytes";
  if (maxCollBytes != other.maxCollBytes) return "maxCollBytes";
  return nullptr;
}

std::string takeWarning() { return std::exchange(warning(), {}); }

void setVerbose(bool verbose) { verboseFlag() = verbose; }

Result<std::unique_ptr<Table>> loadTable(const std::string& name, int newest, std::string& path) {
  const CallTimer watched(Call::kLoad);
  std::string reason;
  void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    reason = why != nullptr ? why : "dlopen failed";
    const std::string second = fmt::format("libnccl-net-{}.so", name);
    if (!isFileName(name)) library = ::dlopen(second.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return failure(Code::kSystem, "cannot be loaded: {}", reason);
  }
  link_map* map = nullptr;
  const bool known = ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && *map->l_name != '\0';
  path = known ? map->l_name : name;
  if (std::unique_ptr<Table> table = tableOf<kNewestAbi>(library, newest)) return table;
  return failure(Code::kInvalidArgument, "exports no ncclNetPlugin of version {} to {}", kOldestAbi, newest);
}

}  // namespace bps::check
