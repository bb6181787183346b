// The fault plugin: an NCCL net plugin that wraps another net plugin. The fault plugin injects
// faults between the wrapped plugin and its caller, to test the code that uses net plugins. The
// fault plugin implements interface versions 8 and 12; the wrapped plugin may have any supported
// version.
//
//   FAULT_PLUGIN_SPEC   lists the faults to inject; spec.h explains the syntax.
//   FAULT_PLUGIN_SEED   is a number. The same seed gives the same faults.
//   FAULT_PLUGIN_WRAPS  names the plugin to wrap, by the rules for BPS_NET_PLUGIN. The default is libnccl-net-bps.so.
//   FAULT_PLUGIN_NAME   is the name of this plugin. With the name "bps", bps posts as many requests to this plugin as
//                       to its own plugin.
//
// This plugin cannot inject faults inside a plugin, such as a write that takes only some bytes of a
// message.
#include <algorithm>
#include <climits>
#include <cstdlib>

#include "bps/net_plugin.h"
#include "net_plugin/abi.h"
#include "src/base/io/interfaces.h"
#include "tests/fault_plugin/process.h"

namespace bps::fault {
namespace {

int init12(void** context, uint64_t commId, abi::Config*, abi::Logger logger, abi::ProfilerCallback) {
  return apiGuard([&]() -> Status {
    *context = BPS_TRY(openContext(commId, logger)).release();
    return {};
  });
}

int init8(abi::Logger logger) {
  return apiGuard([&]() -> Status {
    setSharedContext(BPS_TRY(openContext(1, logger)));
    return {};
  });
}

int finalize(void* context) {
  return apiGuard([&] { delete static_cast<Context*>(context); });
}

int devices(int* count) {
  return apiGuard([&] { *count = deviceCount(); });
}

template <int V>
int properties(int index, abi::Properties<V>* out) {
  return apiGuard([&]() -> Status {
    const net::DeviceInfo& device = *BPS_TRY(deviceAt(index));
    *out = {};
    out->name = device.name.c_str();
    out->pciPath = device.pciPath.empty() ? nullptr : device.pciPath.c_str();
    const bool claimsGpu = BPS_TRY(FaultInjector::current())->spec().gpuClaims > 0;
    if (claimsGpu) out->name = "nic0";
    out->ptrSupport = abi::kPtrHost | (claimsGpu ? abi::kPtrCuda : 0);
    out->speed = device.speedMbps;
    out->maxComms = 65536;
    out->maxRecvs = 1;
    if constexpr (V >= 9) {
      out->virtualDevice.count = 1;
      out->maxP2pBytes = out->maxCollBytes = std::min<size_t>(device.maxBytes, INT_MAX);
    }
    return {};
  });
}

int listen12(void* context, int device, void* handle, void** comm) {
  return apiGuard([&]() -> Status {
    *comm = BPS_TRY(static_cast<Context*>(context)->listen(device, *static_cast<net::Handle*>(handle)));
    return {};
  });
}
int listen8(int device, void* handle, void** comm) { return listen12(&sharedContext(), device, handle, comm); }

int connect12(void* context, int device, void* handle, void** comm, abi::DeviceHandle**) {
  return apiGuard([&]() -> Status {
    *comm = BPS_TRY(static_cast<Context*>(context)->connect(device, *static_cast<net::Handle*>(handle)));
    return {};
  });
}
int connect8(int device, void* handle, void** comm, abi::DeviceHandle** deviceHandle) {
  return connect12(&sharedContext(), device, handle, comm, deviceHandle);
}

int accept(void* listenComm, void** comm, abi::DeviceHandle**) {
  return apiGuard([&]() -> Status {
    auto& listener = *static_cast<Listener*>(listenComm);
    *comm = BPS_TRY(listener.context->accept(listener));
    return {};
  });
}

Connection& connectionOf(void* comm) { return *static_cast<Connection*>(comm); }

int registerMemory(void* comm, void* data, size_t bytes, int type, void** memory) {
  return apiGuard([&]() -> Status {
    *memory = BPS_TRY(connectionOf(comm).registerMemory(data, bytes, type != abi::kPtrHost));
    return {};
  });
}

int deregisterMemory(void* comm, void* memory) {
  return apiGuard([&] { connectionOf(comm).deregister(static_cast<Region*>(memory)); });
}

int post(void* comm, void* data, size_t bytes, void* memory, void** request) {
  return apiGuard([&]() -> Status {
    *request = BPS_TRY(connectionOf(comm).post(data, bytes, static_cast<Region*>(memory)));
    return {};
  });
}

int isend12(void* comm, void* data, size_t bytes, int, void* memory, void*, void** request) {
  return post(comm, data, bytes, memory, request);
}
int isend8(void* comm, void* data, int bytes, int, void* memory, void** request) {
  return post(comm, data, static_cast<size_t>(bytes), memory, request);
}
int irecv12(void* comm, int, void** data, size_t* bytes, int*, void** memory, void**, void** request) {
  return post(comm, data[0], bytes[0], memory[0], request);
}
int irecv8(void* comm, int, void** data, int* bytes, int*, void** memory, void** request) {
  return post(comm, data[0], static_cast<size_t>(bytes[0]), memory[0], request);
}

int flush(void* comm, int, void** data, int* bytes, void** memory, void** request) {
  return apiGuard([&]() -> Status {
    *request =
        BPS_TRY(connectionOf(comm).flush(data[0], static_cast<size_t>(bytes[0]), static_cast<Region*>(memory[0])));
    return {};
  });
}

int test(void* wrapped, int* done, int* sizes) {
  return apiGuard([&]() -> Status {
    auto& request = *static_cast<Request*>(wrapped);
    const net::Completion completion = BPS_TRY(request.owner->test(request));
    *done = completion.done ? 1 : 0;
    if (completion.done && sizes != nullptr) *sizes = static_cast<int>(completion.bytes);
    return {};
  });
}

int closeConnection(void* comm) {
  return apiGuard([&] { connectionOf(comm).context().close(static_cast<Connection*>(comm)); });
}

int closeListener(void* listenComm) {
  return apiGuard([&] {
    auto* listener = static_cast<Listener*>(listenComm);
    listener->context->close(listener);
  });
}

// A missing descriptor is a valid answer. The function therefore does not log a missing descriptor.
int waitFd(void* comm, int* fd) {
  *fd = connectionOf(comm).waitFd();
  return *fd >= 0 ? abi::kSuccess : abi::kInternalError;
}

int arm(void* comm, int* ready) {
  return apiGuard([&]() -> Status {
    *ready = BPS_TRY(connectionOf(comm).arm()) ? 1 : 0;
    return {};
  });
}

const char* pluginName() {
  static const char* given = std::getenv("FAULT_PLUGIN_NAME");
  static const std::string name = given != nullptr ? given : "fault";
  return name.c_str();
}

template <int V>
abi::Net<V> table() {
  abi::Net<V> net{};
  auto& head = net.head;
  head.name = pluginName();
  head.devices = devices;
  head.getProperties = properties<V>;
  head.accept = accept;
  head.regMr = registerMemory;
  head.deregMr = deregisterMemory;
  head.iflush = flush;
  head.test = test;
  head.closeSend = head.closeRecv = closeConnection;
  head.closeListen = closeListener;
  if constexpr (V == 8) {
    head.init = init8, head.listen = listen8, head.connect = connect8, head.isend = isend8, head.irecv = irecv8;
  } else {
    head.init = init12, head.listen = listen12, head.connect = connect12, head.isend = isend12, head.irecv = irecv12;
    net.tail.finalize = finalize;
  }
  return net;
}

}  // namespace
}  // namespace bps::fault

#define BPS_EXPORTED extern "C" __attribute__((visibility("default")))
BPS_EXPORTED const bps::abi::Net<8> ncclNetPlugin_v8 = bps::fault::table<8>();
BPS_EXPORTED const bps::abi::Net<12> ncclNetPlugin_v12 = bps::fault::table<12>();
BPS_EXPORTED const bpsNetWait_v1_t bpsNetWait_v1{bps::fault::waitFd, bps::fault::arm};
