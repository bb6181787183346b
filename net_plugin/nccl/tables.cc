// The exported function tables, one for each version of NCCL's net plugin interface.
#include <limits>

#include "net_plugin/nccl/api_guard.h"
#include "net_plugin/nccl/functions.h"

namespace bps::plugin::nccl {
namespace {

constexpr int kMaxComms = 65536;

Status groupedReceiveError() { return {Code::kInvalidArgument, "grouped receives are not supported (maxRecvs is 1)"}; }

template <int V>
int properties(int index, abi::Properties<V>* out) {
  return apiGuard([&]() -> Status {
    if (out == nullptr) return {Code::kInvalidArgument, "the properties are a null pointer"};
    const link::Device& device = *BPS_TRY(deviceAt(index));
    *out = {};
    out->name = device.name().c_str();
    out->pciPath = device.pciPath().empty() ? nullptr : device.pciPath().c_str();
    out->guid = device.guid(index);
    out->ptrSupport = device.ptrSupport();
    out->speed = device.speedMbps();
    out->port = device.port();
    out->maxComms = kMaxComms;
    out->maxRecvs = 1;
    if constexpr (V >= 9) {
      out->virtualDevice.count = 1;
      out->virtualDevice.devices[0] = index;
      out->maxP2pBytes = kMaxMessageBytes;
      out->maxCollBytes = kMaxMessageBytes;
    }
    if constexpr (V >= 11) out->maxMultiRequestSize = 1;
    if constexpr (V >= 12) out->railId = out->planeId = static_cast<int16_t>(abi::kUndefinedId);
    return {};
  });
}

// The functions whose parameters differ between versions. init, listen, connect, isend and irecv
// have the parameters of version 11 and later. The other functions adapt the parameters of older
// versions.
template <int V, class Size = typename abi::Signatures<V>::Size>
struct VersionedFunctions {
  static int init(void** context, uint64_t, abi::Config*, abi::Logger logger, abi::ProfilerCallback) {
    return apiGuard([&]() -> Status {
      if (context == nullptr) return {Code::kInvalidArgument, "the context is a null pointer"};
      *context = nullptr;
      *context = BPS_TRY(openContext(logger));
      return {};
    });
  }
  static int initShared(abi::Logger logger) {
    return apiGuard([&]() -> Status { return sharedContext(logger).status(); });
  }
  static int initProfiled(abi::Logger logger, abi::ProfilerCallback) { return initShared(logger); }

  static int listen(void* context, int device, void* handle, void** comm) {
    return apiGuard([&]() -> Status { return listenWith(BPS_TRY(findContext(context)), device, handle, comm); });
  }
  static int listenShared(int device, void* handle, void** comm) {
    return apiGuard([&]() -> Status { return listenWith(BPS_TRY(sharedContext()), device, handle, comm); });
  }

  static int connect(void* context, int device, void* handle, void** comm, abi::DeviceHandle**) {
    return apiGuard([&]() -> Status { return connectWith(BPS_TRY(findContext(context)), device, handle, comm); });
  }
  static int connectShared(int device, void* handle, void** comm, abi::DeviceHandle**) {
    return apiGuard([&]() -> Status { return connectWith(BPS_TRY(sharedContext()), device, handle, comm); });
  }
  static int connectConfigured(int device, abi::Config*, void* handle, void** comm, abi::DeviceHandle** deviceHandle) {
    return connectShared(device, handle, comm, deviceHandle);
  }

  // NOLINTBEGIN(readability-function-size): the interface's parameters
  static int isend(void* comm, void* data, Size bytes, int, void* memory, void*, void** request) {
    return apiGuard([&] { return post(comm, {data, static_cast<size_t>(bytes), memory}, request); });
  }
  static int isendPlain(void* comm, void* data, Size bytes, int tag, void* memory, void** request) {
    return isend(comm, data, bytes, tag, memory, nullptr, request);
  }
  static int irecv(void* comm, int n, void** data, Size* sizes, int*, void** memory, void**, void** request) {
    return apiGuard([&]() -> Status {
      if (n != 1 || data == nullptr || sizes == nullptr) {
        if (request != nullptr) *request = nullptr;
        return groupedReceiveError();
      }
      return post(comm, {data[0], static_cast<size_t>(sizes[0]), memory != nullptr ? memory[0] : nullptr}, request);
    });
  }
  static int irecvPlain(void* comm, int n, void** data, Size* sizes, int* tags, void** memory, void** request) {
    return irecv(comm, n, data, sizes, tags, memory, nullptr, request);
  }
  // NOLINTEND(readability-function-size)
};

int finalize(void* context) {
  return apiGuard([&] { closeContext(context); });
}
int setAttributes(void*, abi::NetAttributes*) { return abi::kSuccess; }

template <int V>
constexpr abi::Head<V> makeHead() {
  using Own = VersionedFunctions<V>;
  abi::Head<V> head{};
  head.name = "bps";
  if constexpr (V >= 11) head.init = Own::init, head.listen = Own::listen, head.connect = Own::connect;
  else head.listen = Own::listenShared;
  if constexpr (V == 10) head.init = Own::initProfiled, head.connect = Own::connectConfigured;
  if constexpr (V < 10) head.init = Own::initShared, head.connect = Own::connectShared;
  if constexpr (V >= 10) head.isend = Own::isend, head.irecv = Own::irecv;
  else head.isend = Own::isendPlain, head.irecv = Own::irecvPlain;
  head.devices = devices;
  head.getProperties = properties<V>;
  head.accept = accept;
  head.regMr = registerMemory;
  head.regMrDmaBuf = registerDmaBuf;
  head.deregMr = deregisterMemory;
  head.iflush = flush;
  head.test = test;
  head.closeSend = closeComm;
  head.closeRecv = closeComm;
  head.closeListen = closeListener;
  return head;
}

}  // namespace
}  // namespace bps::plugin::nccl

#define BPS_EXPORT extern "C" __attribute__((visibility("default"))) const

BPS_EXPORT bps::abi::Net<8> ncclNetPlugin_v8{bps::plugin::nccl::makeHead<8>()};
BPS_EXPORT bps::abi::Net<9> ncclNetPlugin_v9{bps::plugin::nccl::makeHead<9>(), {}};
BPS_EXPORT bps::abi::Net<10> ncclNetPlugin_v10{bps::plugin::nccl::makeHead<10>(), {}};
BPS_EXPORT bps::abi::Net<11> ncclNetPlugin_v11{
    bps::plugin::nccl::makeHead<11>(),
    {.makeVDevice = nullptr, .finalize = bps::plugin::nccl::finalize, .setNetAttr = bps::plugin::nccl::setAttributes}};
BPS_EXPORT bps::abi::Net<12> ncclNetPlugin_v12{
    bps::plugin::nccl::makeHead<12>(),
    {.makeVDevice = nullptr, .finalize = bps::plugin::nccl::finalize, .setNetAttr = bps::plugin::nccl::setAttributes}};
