// Tests that bps's declarations of the CUDA driver's functions match those of NVIDIA's headers, if these headers are
// installed.
#include <gtest/gtest.h>

#include <type_traits>

#include "src/cuda/cuda_api.h"

#if __has_include(<cuda.h>)
#include <cuda.h>

namespace bps::cuda {
namespace {

// True if a call passes arguments of both types in the same way. The two types must have the same size, and both or
// neither must be pointers.
template <class A, class B>
constexpr bool kAlike = sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>;

template <class Ours, class Theirs>
struct SameCall : std::false_type {};
template <class... A, class... B>
struct SameCall<int (*)(A...), CUresult (*)(B...)> {
  static constexpr bool kSameCount = sizeof...(A) == sizeof...(B);
  static constexpr bool value = [] {
    if constexpr (kSameCount) return (kAlike<A, B> && ...);
    else return false;
  }();
};

#define BPS_SAME(ours, theirs) static_assert(SameCall<decltype(Api::ours), decltype(&::theirs)>::value, #theirs)
BPS_SAME(init, cuInit);
BPS_SAME(driverGetVersion, cuDriverGetVersion);
BPS_SAME(getErrorName, cuGetErrorName);
BPS_SAME(getErrorString, cuGetErrorString);
BPS_SAME(deviceGetCount, cuDeviceGetCount);
BPS_SAME(deviceGet, cuDeviceGet);
BPS_SAME(deviceGetName, cuDeviceGetName);
BPS_SAME(deviceGetPCIBusId, cuDeviceGetPCIBusId);
BPS_SAME(devicePrimaryCtxRetain, cuDevicePrimaryCtxRetain);
BPS_SAME(devicePrimaryCtxGetState, cuDevicePrimaryCtxGetState);
BPS_SAME(ctxGetCurrent, cuCtxGetCurrent);
BPS_SAME(ctxGetDevice, cuCtxGetDevice);
BPS_SAME(ctxPushCurrent, cuCtxPushCurrent);
BPS_SAME(ctxPopCurrent, cuCtxPopCurrent);
BPS_SAME(ctxGetStreamPriorityRange, cuCtxGetStreamPriorityRange);
BPS_SAME(streamCreateWithPriority, cuStreamCreateWithPriority);
BPS_SAME(streamDestroy, cuStreamDestroy);
BPS_SAME(streamQuery, cuStreamQuery);
BPS_SAME(streamSynchronize, cuStreamSynchronize);
BPS_SAME(streamGetCtx, cuStreamGetCtx);
BPS_SAME(streamIsCapturing, cuStreamIsCapturing);
BPS_SAME(streamWaitEvent, cuStreamWaitEvent);
BPS_SAME(streamWaitValue32, cuStreamWaitValue32);
BPS_SAME(streamWriteValue32, cuStreamWriteValue32);
BPS_SAME(threadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode);
BPS_SAME(eventCreate, cuEventCreate);
BPS_SAME(eventDestroy, cuEventDestroy);
BPS_SAME(eventRecord, cuEventRecord);
BPS_SAME(eventQuery, cuEventQuery);
BPS_SAME(memAlloc, cuMemAlloc);
BPS_SAME(memFree, cuMemFree);
BPS_SAME(memHostRegister, cuMemHostRegister);
BPS_SAME(memHostUnregister, cuMemHostUnregister);
BPS_SAME(memHostGetDevicePointer, cuMemHostGetDevicePointer);
#if CUDA_VERSION >= 11070
BPS_SAME(memGetHandleForAddressRange, cuMemGetHandleForAddressRange);
#endif
BPS_SAME(memcpyAsync, cuMemcpyAsync);
BPS_SAME(pointerGetAttributes, cuPointerGetAttributes);
BPS_SAME(moduleLoadData, cuModuleLoadData);
BPS_SAME(moduleGetFunction, cuModuleGetFunction);
BPS_SAME(launchKernel, cuLaunchKernel);

static_assert(kSuccess == CUDA_SUCCESS && kNotReady == CUDA_ERROR_NOT_READY &&
              kCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(kNonBlocking == CU_STREAM_NON_BLOCKING && kDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kPortable == CU_MEMHOSTREGISTER_PORTABLE && kDeviceMap == CU_MEMHOSTREGISTER_DEVICEMAP);
static_assert(kWaitGeq == CU_STREAM_WAIT_VALUE_GEQ && kNotCapturing == CU_STREAM_CAPTURE_STATUS_NONE &&
              kRelaxed == CU_STREAM_CAPTURE_MODE_RELAXED);
static_assert(kMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE && kHostPointer == CU_POINTER_ATTRIBUTE_HOST_POINTER &&
              kIsManaged == CU_POINTER_ATTRIBUTE_IS_MANAGED && kHostMemory == CU_MEMORYTYPE_HOST);
static_assert(std::is_same_v<Address, CUdeviceptr> && std::is_same_v<Stream, CUstream> &&
              std::is_same_v<Event, CUevent> && std::is_same_v<Context, CUcontext>);

#define BPS_TEXT_OF(name) #name
#define BPS_EXPORTED(name) BPS_TEXT_OF(name)  // expands the macros by which cuda.h selects a version

// bps loads CUDA functions by name. Each name must be that of the version whose parameters the assertions above
// compare.
TEST(CudaApi, LoadsTheVersionsThatItDeclares) {
  Api api;
  std::string names;
  forEachFunction(api, [&](const char* name, auto&) { names += std::string(name) + " "; });
  for (const char* name :
       {BPS_EXPORTED(cuCtxPushCurrent), BPS_EXPORTED(cuCtxPopCurrent), BPS_EXPORTED(cuStreamDestroy),
        BPS_EXPORTED(cuStreamWaitValue32), BPS_EXPORTED(cuStreamWriteValue32), BPS_EXPORTED(cuEventDestroy),
        BPS_EXPORTED(cuMemAlloc), BPS_EXPORTED(cuMemFree), BPS_EXPORTED(cuMemHostRegister),
        BPS_EXPORTED(cuMemHostGetDevicePointer), BPS_EXPORTED(cuMemcpyAsync), BPS_EXPORTED(cuPointerGetAttributes),
        BPS_EXPORTED(cuStreamGetCtx), BPS_EXPORTED(cuEventRecord), BPS_EXPORTED(cuDeviceGetPCIBusId)})
    EXPECT_NE(names.find(std::string(name) + " "), std::string::npos) << name;
}

}  // namespace
}  // namespace bps::cuda
#else
TEST(CudaApi, LoadsTheVersionsThatItDeclares) { GTEST_SKIP() << "no <cuda.h>"; }
#endif
