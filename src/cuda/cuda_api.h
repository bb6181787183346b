// Api: the functions of the CUDA driver that bps uses, declared here so that bps compiles without CUDA.
//
// The driver's binary interface fixes names, numbers and parameters. A test in tests/unit/cuda
// compares them with an installed <cuda.h>. A member has the name of its function without the
// prefix and the version suffix. An Api does not change after loading. Any thread may use it.
#pragma once
#include <cstddef>
#include <cstdint>

struct CUctx_st;
struct CUstream_st;
struct CUevent_st;
struct CUmod_st;
struct CUfunc_st;

namespace bps::cuda {

using Context = CUctx_st*;
using Stream = CUstream_st*;
using Event = CUevent_st*;
using Module = CUmod_st*;
using Function = CUfunc_st*;
using Address = unsigned long long;  // CUdeviceptr

// CUresult.
inline constexpr int kSuccess = 0, kNotReady = 600, kCaptureImplicit = 906;
// CUstream_flags, CUevent_flags, CU_MEMHOSTREGISTER_*, CUstreamWaitValue_flags.
inline constexpr unsigned kNonBlocking = 1, kDisableTiming = 2, kPortable = 1, kDeviceMap = 2, kWaitGeq = 0;
// CUstreamCaptureStatus, CUstreamCaptureMode.
inline constexpr int kNotCapturing = 0, kRelaxed = 2;
// CUpointer_attribute, CUmemorytype.
inline constexpr int kMemoryType = 2, kHostPointer = 4, kIsManaged = 8;
inline constexpr unsigned kHostMemory = 1;

// Stream 0 is the context's default stream, 1 is the same stream (legacy), and 2 is the thread's
// default stream.
inline bool isDefaultStream(Stream stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

// The list of all functions, each written as FUNCTION(exported name, member, parameters). Api and
// forEachFunction() are generated from this list.
// clang-format off
#define BPS_CUDA_FUNCTIONS(FUNCTION)                                                                                   \
  FUNCTION("cuInit", init, (unsigned flags))                                                                           \
  FUNCTION("cuDriverGetVersion", driverGetVersion, (int* version))                                                     \
  FUNCTION("cuGetErrorName", getErrorName, (int error, const char** name))                                             \
  FUNCTION("cuGetErrorString", getErrorString, (int error, const char** text))                                         \
  FUNCTION("cuDeviceGetCount", deviceGetCount, (int* count))                                                           \
  FUNCTION("cuDeviceGet", deviceGet, (int* device, int ordinal))                                                       \
  FUNCTION("cuDeviceGetName", deviceGetName, (char* name, int bytes, int device))                                      \
  FUNCTION("cuDeviceGetPCIBusId", deviceGetPCIBusId, (char* text, int bytes, int device))                              \
  FUNCTION("cuDevicePrimaryCtxRetain", devicePrimaryCtxRetain, (Context* context, int device))                         \
  FUNCTION("cuDevicePrimaryCtxGetState", devicePrimaryCtxGetState, (int device, unsigned* flags, int* active))         \
  FUNCTION("cuCtxGetCurrent", ctxGetCurrent, (Context* context))                                                       \
  FUNCTION("cuCtxGetDevice", ctxGetDevice, (int* device))                                                              \
  FUNCTION("cuCtxPushCurrent_v2", ctxPushCurrent, (Context context))                                                   \
  FUNCTION("cuCtxPopCurrent_v2", ctxPopCurrent, (Context* context))                                                    \
  FUNCTION("cuCtxGetStreamPriorityRange", ctxGetStreamPriorityRange, (int* least, int* greatest))                      \
  FUNCTION("cuStreamCreateWithPriority", streamCreateWithPriority, (Stream* stream, unsigned flags, int priority))     \
  FUNCTION("cuStreamDestroy_v2", streamDestroy, (Stream stream))                                                       \
  FUNCTION("cuStreamQuery", streamQuery, (Stream stream))                                                              \
  FUNCTION("cuStreamSynchronize", streamSynchronize, (Stream stream))                                                  \
  FUNCTION("cuStreamGetCtx", streamGetCtx, (Stream stream, Context* context))                                          \
  FUNCTION("cuStreamIsCapturing", streamIsCapturing, (Stream stream, int* status))                                     \
  FUNCTION("cuStreamWaitEvent", streamWaitEvent, (Stream stream, Event event, unsigned flags))                         \
  FUNCTION("cuStreamWaitValue32_v2", streamWaitValue32,                                                                \
           (Stream stream, Address address, uint32_t value, unsigned flags))                                           \
  FUNCTION("cuStreamWriteValue32_v2", streamWriteValue32,                                                              \
           (Stream stream, Address address, uint32_t value, unsigned flags))                                           \
  FUNCTION("cuThreadExchangeStreamCaptureMode", threadExchangeStreamCaptureMode, (int* mode))                          \
  FUNCTION("cuEventCreate", eventCreate, (Event* event, unsigned flags))                                               \
  FUNCTION("cuEventDestroy_v2", eventDestroy, (Event event))                                                           \
  FUNCTION("cuEventRecord", eventRecord, (Event event, Stream stream))                                                 \
  FUNCTION("cuEventQuery", eventQuery, (Event event))                                                                  \
  FUNCTION("cuMemAlloc_v2", memAlloc, (Address* memory, size_t bytes))                                                 \
  FUNCTION("cuMemFree_v2", memFree, (Address memory))                                                                  \
  FUNCTION("cuMemHostRegister_v2", memHostRegister, (void* memory, size_t bytes, unsigned flags))                      \
  FUNCTION("cuMemHostUnregister", memHostUnregister, (void* memory))                                                   \
  FUNCTION("cuMemHostGetDevicePointer_v2", memHostGetDevicePointer, (Address* address, void* memory, unsigned flags))  \
  FUNCTION("cuMemGetHandleForAddressRange", memGetHandleForAddressRange,                                               \
           (void* handle, Address memory, size_t bytes, int type, unsigned long long flags))                           \
  FUNCTION("cuMemcpyAsync", memcpyAsync, (Address to, Address from, size_t bytes, Stream stream))                      \
  FUNCTION("cuPointerGetAttributes", pointerGetAttributes,                                                             \
           (unsigned count, const int* attributes, void** values, Address pointer))                                    \
  FUNCTION("cuModuleLoadData", moduleLoadData, (Module* module, const void* image))                                    \
  FUNCTION("cuModuleGetFunction", moduleGetFunction, (Function* function, Module module, const char* name))            \
  FUNCTION("cuLaunchKernel", launchKernel,                                                                             \
           (Function function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,       \
            unsigned blockZ, unsigned sharedBytes, Stream stream, void** parameters, void** extra))
// clang-format on

struct Api {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration's parts cannot stand in parentheses
#define BPS_MEMBER(name, member, parameters) int(*member) parameters = nullptr;
  BPS_CUDA_FUNCTIONS(BPS_MEMBER)
#undef BPS_MEMBER
};

// Calls use(exported name, member) for every function.
template <class ApiType, class Use>
void forEachFunction(ApiType& api, Use&& use) {
#define BPS_USE(name, member, parameters) use(name, api.member);
  BPS_CUDA_FUNCTIONS(BPS_USE)
#undef BPS_USE
}

}  // namespace bps::cuda
