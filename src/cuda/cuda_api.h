// Api: the functions of the CUDA driver that bps uses, declared here so that bps compiles without CUDA.
//
// The driver's binary interface fixes names, numbers and parameters; tests/unit/cuda compares them with an installed
// <cuda.h>. A member has its function's name without the prefix and the version suffix. Immutable once loaded. Threads:
// any.
#pragma once
#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;

namespace bps::cuda {

using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using Address = unsigned long long;  // CUdeviceptr

// CUresult.
inline constexpr int kSuccess = 0, kNotReady = 600, kCaptureImplicit = 906;
// CUstream_flags, CUevent_flags, CU_MEMHOSTREGISTER_*, CUstreamWaitValue_flags.
inline constexpr unsigned kNonBlocking = 1, kDisableTiming = 2, kPortable = 1, kDeviceMap = 2, kWaitGeq = 0;
// CUstreamCaptureStatus, CUstreamCaptureMode.
inline constexpr int kNotCapturing = 0, kRelaxed = 2;
// CUpointer_attribute, CUmemorytype.
inline constexpr int kMemoryType = 2, kHostPointer = 4, kIsManaged = 8, kDeviceOrdinal = 9;
inline constexpr unsigned kHostMemory = 1;

// 0: the context's default stream, 1: the same (legacy), 2: the thread's.
inline bool isDefaultStream(Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

struct Api {
  int (*init)(unsigned flags) = nullptr;
  int (*driverGetVersion)(int* version) = nullptr;
  int (*getErrorName)(int error, const char** name) = nullptr;
  int (*getErrorString)(int error, const char** text) = nullptr;

  int (*deviceGetCount)(int* count) = nullptr;
  int (*deviceGet)(int* device, int ordinal) = nullptr;
  int (*deviceGetName)(char* name, int bytes, int device) = nullptr;
  int (*deviceGetPCIBusId)(char* text, int bytes, int device) = nullptr;
  int (*devicePrimaryCtxRetain)(Context* context, int device) = nullptr;
  int (*devicePrimaryCtxGetState)(int device, unsigned* flags, int* active) = nullptr;

  int (*ctxGetCurrent)(Context* context) = nullptr;
  int (*ctxGetDevice)(int* device) = nullptr;
  int (*ctxPushCurrent)(Context context) = nullptr;
  int (*ctxPopCurrent)(Context* context) = nullptr;
  int (*ctxGetStreamPriorityRange)(int* least, int* greatest) = nullptr;

  int (*streamCreateWithPriority)(Stream* stream, unsigned flags, int priority) = nullptr;
  int (*streamDestroy)(Stream stream) = nullptr;
  int (*streamQuery)(Stream stream) = nullptr;
  int (*streamSynchronize)(Stream stream) = nullptr;
  int (*streamGetCtx)(Stream stream, Context* context) = nullptr;
  int (*streamIsCapturing)(Stream stream, int* status) = nullptr;
  int (*streamWaitEvent)(Stream stream, Event event, unsigned flags) = nullptr;
  int (*streamWaitValue32)(Stream stream, Address address, uint32_t value, unsigned flags) = nullptr;
  int (*launchHostFunc)(Stream stream, void (*body)(void*), void* argument) = nullptr;
  int (*threadExchangeStreamCaptureMode)(int* mode) = nullptr;

  int (*eventCreate)(Event* event, unsigned flags) = nullptr;
  int (*eventDestroy)(Event event) = nullptr;
  int (*eventRecord)(Event event, Stream stream) = nullptr;
  int (*eventQuery)(Event event) = nullptr;

  int (*memAlloc)(Address* memory, size_t bytes) = nullptr;
  int (*memFree)(Address memory) = nullptr;
  int (*memHostRegister)(void* memory, size_t bytes, unsigned flags) = nullptr;
  int (*memHostUnregister)(void* memory) = nullptr;
  int (*memHostGetDevicePointer)(Address* address, void* memory, unsigned flags) = nullptr;
  int (*memGetHandleForAddressRange)(void* handle, Address memory, size_t bytes, int type,
                                     unsigned long long flags) = nullptr;
  int (*memcpyAsync)(Address to, Address from, size_t bytes, Stream stream) = nullptr;
  int (*pointerGetAttributes)(unsigned count, const int* attributes, void** values, Address pointer) = nullptr;
};

// Calls use(exported name, member) for every function: the one list for loading and for checks.
template <class ApiType, class Use>
void forEachFunction(ApiType& api, Use&& use) {
  use("cuInit", api.init);
  use("cuDriverGetVersion", api.driverGetVersion);
  use("cuGetErrorName", api.getErrorName);
  use("cuGetErrorString", api.getErrorString);
  use("cuDeviceGetCount", api.deviceGetCount);
  use("cuDeviceGet", api.deviceGet);
  use("cuDeviceGetName", api.deviceGetName);
  use("cuDeviceGetPCIBusId", api.deviceGetPCIBusId);
  use("cuDevicePrimaryCtxRetain", api.devicePrimaryCtxRetain);
  use("cuDevicePrimaryCtxGetState", api.devicePrimaryCtxGetState);
  use("cuCtxGetCurrent", api.ctxGetCurrent);
  use("cuCtxGetDevice", api.ctxGetDevice);
  use("cuCtxPushCurrent_v2", api.ctxPushCurrent);
  use("cuCtxPopCurrent_v2", api.ctxPopCurrent);
  use("cuCtxGetStreamPriorityRange", api.ctxGetStreamPriorityRange);
  use("cuStreamCreateWithPriority", api.streamCreateWithPriority);
  use("cuStreamDestroy_v2", api.streamDestroy);
  use("cuStreamQuery", api.streamQuery);
  use("cuStreamSynchronize", api.streamSynchronize);
  use("cuStreamGetCtx", api.streamGetCtx);
  use("cuStreamIsCapturing", api.streamIsCapturing);
  use("cuStreamWaitEvent", api.streamWaitEvent);
  use("cuStreamWaitValue32_v2", api.streamWaitValue32);
  use("cuLaunchHostFunc", api.launchHostFunc);
  use("cuThreadExchangeStreamCaptureMode", api.threadExchangeStreamCaptureMode);
  use("cuEventCreate", api.eventCreate);
  use("cuEventDestroy_v2", api.eventDestroy);
  use("cuEventRecord", api.eventRecord);
  use("cuEventQuery", api.eventQuery);
  use("cuMemAlloc_v2", api.memAlloc);
  use("cuMemFree_v2", api.memFree);
  use("cuMemHostRegister_v2", api.memHostRegister);
  use("cuMemHostUnregister", api.memHostUnregister);
  use("cuMemHostGetDevicePointer_v2", api.memHostGetDevicePointer);
  use("cuMemGetHandleForAddressRange", api.memGetHandleForAddressRange);
  use("cuMemcpyAsync", api.memcpyAsync);
  use("cuPointerGetAttributes", api.pointerGetAttributes);
}

}  // namespace bps::cuda
