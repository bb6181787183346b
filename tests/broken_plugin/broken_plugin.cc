// A net plugin that forwards its calls to the plugin that the variable BROKEN_PLUGIN_OF names. It
// has one defect, which the variable BROKEN_DEFECT names. tests/multiproc/net_plugin_check.sh
// checks that net-plugin-check finds every defect.
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include "net_plugin/abi.h"
#include "tests/broken_plugin/grouping.h"

namespace {

using namespace bps;

const abi::Net<12>* real = nullptr;
std::string_view defect;
bool hasDefect(std::string_view name) { return defect == name; }
// True if this plugin adds grouped receives, which the real plugin does not have. Only one of
// the names that begin with "grouping" is a defect: "grouping_without_tags".
bool grouping() { return defect.starts_with("grouping"); }

// The data that the defects need. Functions that several threads call lock `mutex`.
struct State {
  std::mutex mutex;
  std::set<void*> receives, sends, registered;
  std::vector<void*> listeners;
  std::thread::id registrar;
  void* handle = nullptr;
  int connections = 0, finalized = 0, attempts = 0, calls = 0;
};
State& state() {
  static State& instance = *new State;
  return instance;
}
int fakeRequestTarget = 0;  // its address is a fake request, which is complete although nothing was sent
void* fakeRequest() { return &fakeRequestTarget; }

void fillTable();

int init(void** context, uint64_t id, abi::Config* config, abi::Logger logger, abi::ProfilerCallback profiler) {
  fillTable();
  if (hasDefect("init_once") && state().finalized > 0) return abi::kInternalError;
  return real->head.init(context, id, config, logger, profiler);
}

int finalize(void* context) {
  if (hasDefect("finalize_null") && context == nullptr) std::abort();
  if (hasDefect("finalize_twice") && state().registered.count(context) > 0) std::abort();
  state().registered.insert(context);
  ++state().finalized;
  return real->tail.finalize(context);
}

int devices(int* count) {
  const int code = real->head.devices(count);
  if (hasDefect("no_device")) *count = 0;
  return code;
}

int properties(int device, abi::PropertiesV12* out) {
  const int speed = out->speed;
  const int code = real->head.getProperties(device, out);
  if (hasDefect("unwritten_speed")) out->speed = speed == 0 ? 1000 : speed;
  if (hasDefect("no_receives")) out->maxRecvs = 0;
  if (hasDefect("claims_gpu")) out->ptrSupport |= abi::kPtrCuda;
  if (grouping()) out->maxRecvs = broken::kMaxGroupedReceives;
  return code;
}

int listen(void* context, int device, void* handle, void** comm) {
  if (hasDefect("one_context") && state().finalized > 0) return abi::kInternalError;
  const int code = real->head.listen(context, device, handle, comm);
  if (hasDefect("long_handle")) static_cast<uint8_t*>(handle)[abi::kHandleBytes] = 1;
  state().listeners.push_back(*comm);
  return code;
}

int closeListen(void* comm) {
  std::erase(state().listeners, comm);
  return real->head.closeListen(comm);
}

int connect(void* context, int device, void* handle, void** comm, abi::DeviceHandle** deviceHandle) {
  State& now = state();
  *comm = nullptr;
  if (hasDefect("hanging_connect")) ::pause();
  if (hasDefect("blocking_connect")) ::usleep(700000);
  if (hasDefect("few_connections") && now.connections >= 32) return abi::kInternalError;
  if (hasDefect("one_way") && !now.listeners.empty()) return abi::kSuccess;
  if (hasDefect("handle_address") && ++now.attempts % 3 != 0) {
    if (now.handle != nullptr && now.handle != handle) return abi::kInternalError;
    now.handle = handle;
    return abi::kSuccess;
  }
  const int code = real->head.connect(context, device, handle, comm, deviceHandle);
  if (*comm != nullptr) ++now.connections;
  return code;
}

int accept(void* listener, void** comm, abi::DeviceHandle** deviceHandle) {
  State& now = state();
  if (hasDefect("mixed_listeners"))
    for (size_t i = 0; i < now.listeners.size(); ++i)
      if (now.listeners[i] == listener) {
        listener = now.listeners[(i + 1) % now.listeners.size()];
        break;
      }
  const int code = real->head.accept(listener, comm, deviceHandle);
  if (hasDefect("blocking_accept") && *comm == nullptr) ::usleep(3000000);
  return code;
}

int regMr(void* comm, void* data, size_t bytes, int type, void** memory) {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  if (now.registrar == std::thread::id()) now.registrar = std::this_thread::get_id();
  if (hasDefect("one_registrar") && now.registrar != std::this_thread::get_id()) return abi::kInternalError;
  if (hasDefect("registers_once") && !now.registered.insert(data).second) return abi::kInternalError;
  return real->head.regMr(comm, data, bytes, type, memory);
}

int isend(void* comm, void* data, size_t bytes, int tag, void* memory, void* phandle, void** request) {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  if (hasDefect("stale_request") && ++now.calls % 3 == 0) return abi::kSuccess;
  if (hasDefect("slow_send")) ::usleep(600000);
  if (hasDefect("needs_alignment") && reinterpret_cast<uintptr_t>(data) % 8 != 0) return abi::kInvalidArgument;
  if (hasDefect("no_large") && bytes > (size_t{8} << 20)) return abi::kInvalidArgument;
  if (hasDefect("other_bytes") && bytes > 1000) static_cast<uint8_t*>(data)[bytes / 2] ^= 1;
  if (hasDefect("loses_empty") && bytes == 0) {
    *request = fakeRequest();
    return abi::kSuccess;
  }
  if (grouping()) return broken::groupedSend(*real, comm, data, bytes, tag, request);
  const int code = real->head.isend(comm, data, bytes, tag, memory, phandle, request);
  if (*request != nullptr) now.sends.insert(*request);
  if (hasDefect("lazy_send") && *request != nullptr) *request = fakeRequest();
  return code;
}

int irecv(void* comm, int n, void** data, size_t* sizes, int* tags, void** memory, void** phandles, void** request) {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  if (hasDefect("no_mark") && *request == reinterpret_cast<void*>(uintptr_t{1})) return abi::kInvalidArgument;
  if (hasDefect("overrun")) static_cast<uint8_t*>(data[0])[sizes[0]] = 0;
  *request = nullptr;
  if (hasDefect("few_receives") && now.receives.size() >= 16) return abi::kSuccess;
  if (grouping()) return broken::groupedReceive(*real, comm, n, data, sizes, tags, request);
  const int code = real->head.irecv(comm, n, data, sizes, tags, memory, phandles, request);
  if (*request != nullptr) now.receives.insert(*request);
  return code;
}

int test(void* request, int* done, int* sizes) {
  State& now = state();
  const std::lock_guard lock(now.mutex);
  *done = request == fakeRequest() ? 1 : 0;
  if (request == fakeRequest()) return abi::kSuccess;
  if (hasDefect("hanging_test")) ::pause();
  if (grouping()) return broken::groupedTest(*real, !hasDefect("grouping_without_tags"), request, done, sizes);
  const int code = real->head.test(request, done, sizes);
  if (*done != 0) {
    now.receives.erase(request);
    now.sends.erase(request);
  }
  if (hasDefect("wrong_size") && *done != 0 && sizes != nullptr) *sizes = (*sizes + 63) / 64 * 64;
  if (code == abi::kSuccess) return code;
  if (hasDefect("crash_on_error")) std::raise(SIGSEGV);
  if (hasDefect("truncates")) *done = 1;
  return hasDefect("truncates") || hasDefect("silent") ? abi::kSuccess : code;
}

int closeSend(void* comm) {
  if (hasDefect("close_crash") && !state().sends.empty()) std::abort();
  --state().connections;
  return real->head.closeSend(comm);
}

int closeRecv(void* comm) {
  if (hasDefect("leak") && ::dup(STDERR_FILENO) < 0) return abi::kInternalError;
  if (hasDefect("leak_heap")) static_cast<uint8_t* volatile*>(::calloc(1, 8192))[0] = nullptr;
  for (int i = 0; hasDefect("leak_mapping") && i < 2; ++i)
    if (::mmap(nullptr, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) return abi::kInternalError;
  return real->head.closeRecv(comm);
}

int iflush(void*, int, void**, int*, void**, void** request) {
  alignas(64) static char notPosted[256] = {};  // bps's plugin reads these zeros as a request that is not in flight
  *request = hasDefect("bad_flush") ? notPosted : nullptr;
  return abi::kSuccess;
}

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

extern "C" __attribute__((visibility("default"))) abi::Net<12> ncclNetPlugin_v12;
abi::Net<12> ncclNetPlugin_v12;

namespace {

void fillTable() {
  ncclNetPlugin_v12 = *real;
  auto& [head, tail] = ncclNetPlugin_v12;
  head.init = init;
  head.devices = devices;
  head.getProperties = properties;
  head.listen = listen;
  head.connect = connect;
  head.accept = hasDefect("no_accept") ? nullptr : accept;
  head.regMr = regMr;
  head.isend = isend;
  head.irecv = irecv;
  head.test = test;
  head.closeSend = closeSend;
  head.closeRecv = closeRecv;
  head.closeListen = closeListen;
  head.iflush = iflush;
  tail.finalize = finalize;
}

__attribute__((constructor)) void load() {
  void* library = ::dlopen(variable("BROKEN_PLUGIN_OF"), RTLD_NOW | RTLD_LOCAL);
  defect = variable("BROKEN_DEFECT");
  if (library == nullptr) return;
  real = static_cast<const abi::Net<12>*>(::dlsym(library, "ncclNetPlugin_v12"));
  fillTable();
  if (hasDefect("exit_crash")) std::atexit(std::abort);
  // "late_table" is not a defect, because some plugins fill only the members `name` and `init`
  // before init() is called.
  if (!hasDefect("late_table")) return;
  ncclNetPlugin_v12 = {};
  ncclNetPlugin_v12.head.name = real->head.name;
  ncclNetPlugin_v12.head.init = init;
}

}  // namespace
