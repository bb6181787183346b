// The binary interface of NCCL's net plugins, versions 8 to 12. It consists of the structs that
// NCCL (or another caller) and a plugin exchange. The layout of a published version never changes.
// The assertions at the end of this file check the layouts.
//
// The members of a function table up to irecvConsumed have the same offsets in all versions and
// form Head<V>. Members that only later versions have follow Head<V>. The functions return int
// instead of ncclResult_t.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>

namespace bps::abi {

inline constexpr int kSuccess = 0, kInternalError = 3, kInvalidArgument = 4;
inline constexpr size_t kHandleBytes = 128;
inline constexpr int kPtrHost = 1, kPtrCuda = 2, kPtrDmaBuf = 4;
inline constexpr int kUndefinedId = -1;  // an undefined traffic class, rail or plane
inline constexpr int kLogWarn = 2, kLogInfo = 3, kLogTrace = 5;
inline constexpr unsigned long kLogNet = 0x10, kLogEnv = 0x80;

using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format, ...);
using ProfilerCallback = int (*)(void** event, int type, void* phandle, int64_t pluginId, void* data);

struct DeviceHandle {
  int deviceType;
  int deviceVersion;
  void* handle;
  size_t size;
  int needsProxyProgress;
};

template <int N>
struct VirtualDevice {
  int count;
  int devices[N];
};

struct Config {
  int trafficClass;
};

struct CommAttributes {
  int32_t maxConcurrentPeers, minConcurrentPeers, maxFlowsPerPeer, minFlowsPerPeer;
};
struct NetAttributes {
  CommAttributes send, receive;
  uint32_t operation, algorithm, protocol;
};

struct PropertiesV8 {
  const char* name;
  const char* pciPath;
  uint64_t guid;
  int ptrSupport, regIsGlobal;
  int speed, port;
  float latency;
  int maxComms, maxRecvs;
  int deviceType, deviceVersion;
};
struct PropertiesV9 {  // version 10 also uses it
  const char* name;
  const char* pciPath;
  uint64_t guid;
  int ptrSupport, regIsGlobal, forceFlush;
  int speed, port;
  float latency;
  int maxComms, maxRecvs;
  int deviceType, deviceVersion;
  VirtualDevice<4> virtualDevice;
  size_t maxP2pBytes, maxCollBytes;
};
struct PropertiesV11 {
  const char* name;
  const char* pciPath;
  uint64_t guid;
  int ptrSupport, regIsGlobal, forceFlush;
  int speed, port;
  float latency;
  int maxComms, maxRecvs;
  int deviceType, deviceVersion;
  VirtualDevice<4> virtualDevice;
  size_t maxP2pBytes, maxCollBytes;
  int maxMultiRequestSize;
};
struct PropertiesV12 {
  const char* name;
  const char* pciPath;
  uint64_t guid;
  int ptrSupport, regIsGlobal, forceFlush;
  int speed, port;
  float latency;
  int maxComms, maxRecvs;
  int deviceType, deviceVersion;
  VirtualDevice<8> virtualDevice;
  size_t maxP2pBytes, maxCollBytes;
  int maxMultiRequestSize;
  int16_t railId, planeId;
};

template <bool First, class A, class B>
using Either = std::conditional_t<First, A, B>;

template <int V>
using Properties =
    Either<V == 8, PropertiesV8, Either<V <= 10, PropertiesV9, Either<V == 11, PropertiesV11, PropertiesV12>>>;

// The types of the functions whose parameters differ between versions.
template <int V>
struct Signatures {
  using Size = Either<V == 8, int, size_t>;
  using Init = Either<V >= 11, int (*)(void** context, uint64_t commId, Config*, Logger, ProfilerCallback),
                      Either<V == 10, int (*)(Logger, ProfilerCallback), int (*)(Logger)>>;
  using Listen = Either<V >= 11, int (*)(void* context, int device, void* handle, void** listenComm),
                        int (*)(int device, void* handle, void** listenComm)>;
  using Connect = Either<V >= 11, int (*)(void* context, int device, void* handle, void** sendComm, DeviceHandle**),
                         Either<V == 10, int (*)(int device, Config*, void* handle, void** sendComm, DeviceHandle**),
                                int (*)(int device, void* handle, void** sendComm, DeviceHandle**)>>;
  using Isend = Either<V >= 10, int (*)(void* comm, void*, Size, int tag, void* memory, void* phandle, void** request),
                       int (*)(void* comm, void*, Size, int tag, void* memory, void** request)>;
  using Irecv =
      Either<V >= 10, int (*)(void* comm, int n, void**, Size*, int* tags, void** memory, void** phandles, void**),
             int (*)(void* comm, int n, void**, Size*, int* tags, void** memory, void** request)>;
};

template <int V>
struct Head {
  const char* name;
  typename Signatures<V>::Init init;
  int (*devices)(int* count);
  int (*getProperties)(int device, Properties<V>*);
  typename Signatures<V>::Listen listen;
  typename Signatures<V>::Connect connect;
  int (*accept)(void* listenComm, void** recvComm, DeviceHandle**);
  int (*regMr)(void* comm, void* data, size_t bytes, int type, void** memory);
  int (*regMrDmaBuf)(void* comm, void* data, size_t bytes, int type, uint64_t offset, int fd, void** memory);
  int (*deregMr)(void* comm, void* memory);
  typename Signatures<V>::Isend isend;
  typename Signatures<V>::Irecv irecv;
  int (*iflush)(void* comm, int n, void** data, int* sizes, void** memory, void** request);
  int (*test)(void* request, int* done, int* sizes);
  int (*closeSend)(void* sendComm);
  int (*closeRecv)(void* recvComm);
  int (*closeListen)(void* listenComm);
  int (*getDeviceMr)(void* comm, void* memory, void** deviceMemory);
  int (*irecvConsumed)(void* recvComm, int n, void* request);
};

template <int N>
struct VirtualTail {
  int (*makeVDevice)(int* device, VirtualDevice<N>*);
};
template <int N>
struct ContextTail {
  int (*makeVDevice)(int* device, VirtualDevice<N>*);
  int (*finalize)(void* context);
  int (*setNetAttr)(void* context, NetAttributes*);
};

template <int V, class Tail = Either<V >= 11, ContextTail<V == 11 ? 4 : 8>, VirtualTail<4>>>
struct Net {
  Head<V> head;
  Tail tail;
};
template <class Tail>
struct Net<8, Tail> {
  Head<8> head;
};

// Returns the name of the first missing member among the members that NCCL uses without a null
// check. Returns null if no such member is missing. Before init, the function checks only `name`
// and `init`, because the init of some plugins sets the other members.
template <int V>
const char* missingMember(const Net<V>& net, bool initialised) {
  const Head<V>& head = net.head;
  bool finalizes = true;
  if constexpr (V >= 11) finalizes = net.tail.finalize != nullptr;
  const struct {
    bool there;
    const char* name;
  } members[] = {{head.name != nullptr && *head.name != '\0', "name"},
                 {head.init != nullptr, "init"},
                 {head.devices != nullptr, "devices"},
                 {head.getProperties != nullptr, "getProperties"},
                 {head.listen != nullptr, "listen"},
                 {head.connect != nullptr, "connect"},
                 {head.accept != nullptr, "accept"},
                 {head.regMr != nullptr, "regMr"},
                 {head.deregMr != nullptr, "deregMr"},
                 {head.isend != nullptr, "isend"},
                 {head.irecv != nullptr, "irecv"},
                 {head.test != nullptr, "test"},
                 {head.closeSend != nullptr, "closeSend"},
                 {head.closeRecv != nullptr, "closeRecv"},
                 {head.closeListen != nullptr, "closeListen"},
                 {finalizes, "finalize"}};
  size_t needed = initialised ? std::size(members) : 2;
  for (const auto& member : members) {
    if (needed-- == 0) break;
    if (!member.there) return member.name;
  }
  return nullptr;
}

static_assert(sizeof(Head<8>) == 152 && sizeof(Net<8>) == 152 && sizeof(Net<9>) == 160 && sizeof(Net<10>) == 160);
static_assert(sizeof(Net<11>) == 176 && sizeof(Net<12>) == 176 && offsetof(Net<12>, tail.finalize) == 160);
static_assert(offsetof(Head<12>, listen) == 32 && offsetof(Head<12>, regMr) == 56 && offsetof(Head<12>, isend) == 80);
static_assert(offsetof(Head<12>, test) == 104 && offsetof(Head<12>, irecvConsumed) == 144);
static_assert(sizeof(PropertiesV8) == 64 && offsetof(PropertiesV8, speed) == 32 &&
              offsetof(PropertiesV8, maxRecvs) == 48);
static_assert(sizeof(PropertiesV9) == 104 && offsetof(PropertiesV9, virtualDevice) == 64 &&
              offsetof(PropertiesV9, maxP2pBytes) == 88);
static_assert(sizeof(PropertiesV11) == 112 && offsetof(PropertiesV11, maxMultiRequestSize) == 104);
static_assert(sizeof(PropertiesV12) == 128 && offsetof(PropertiesV12, maxP2pBytes) == 104 &&
              offsetof(PropertiesV12, railId) == 124 && offsetof(PropertiesV12, planeId) == 126);
static_assert(sizeof(DeviceHandle) == 32 && sizeof(NetAttributes) == 44 && sizeof(Config) == 4);
static_assert(sizeof(VirtualDevice<4>) == 20 && sizeof(VirtualDevice<8>) == 36);

}  // namespace bps::abi
