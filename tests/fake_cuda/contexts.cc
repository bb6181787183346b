// The fake driver's initialization, devices and contexts.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/fake_cuda/state.h"

using namespace bps::fake;

namespace {

constexpr int kVersion = 13000;

// Values of the driver's enumeration CUdevice_attribute.
constexpr int kComputeMajor = 75, kComputeMinor = 76, kUnifiedAddressing = 41, kPciBus = 33;

bool exists(int device) { return device >= 0 && static_cast<size_t>(device) < state().primary.size(); }

}  // namespace

FAKE_CUDA int cuInit(unsigned) {
  const int failed = enter("cuInit");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  if (state().initialized) return kSuccess;
  for (unsigned device = 0; device < setting("FAKE_CUDA_DEVICES", 1); ++device) {
    state().primary.push_back(std::make_unique<Context>());
    state().primary.back()->device = static_cast<int>(device);
    state().primary.back()->legacy.context = state().primary.back().get();
  }
  if (state().primary.empty()) return kNoDevice;
  state().initialized = true;
  return kSuccess;
}

FAKE_CUDA int cuDriverGetVersion(int* version) { return *version = kVersion, enter("cuDriverGetVersion"); }

FAKE_CUDA int cuDeviceGetCount(int* count) {
  const int failed = enter("cuDeviceGetCount");
  if (failed != kSuccess) return failed;
  if (!state().initialized) return kNotInitialized;
  return *count = static_cast<int>(state().primary.size()), kSuccess;
}

FAKE_CUDA int cuDeviceGet(int* device, int ordinal) {
  const int failed = enter("cuDeviceGet");
  if (failed != kSuccess) return failed;
  return *device = ordinal, exists(ordinal) ? kSuccess : kInvalidDevice;
}

FAKE_CUDA int cuDeviceGetAttribute(int* value, int attribute, int device) {
  const int failed = enter("cuDeviceGetAttribute");
  if (failed != kSuccess) return failed;
  if (!exists(device)) return kInvalidDevice;
  *value = attribute == kComputeMajor        ? 8
           : attribute == kComputeMinor      ? 0
           : attribute == kUnifiedAddressing ? 1
           : attribute == kPciBus            ? 1 + device
                                             : 0;
  return kSuccess;
}

FAKE_CUDA int cuDeviceGetName(char* name, int bytes, int device) {
  const int failed = enter("cuDeviceGetName");
  if (failed != kSuccess) return failed;
  std::snprintf(name, static_cast<size_t>(bytes), "fake GPU");
  return exists(device) ? kSuccess : kInvalidDevice;
}

FAKE_CUDA int cuDeviceGetPCIBusId(char* text, int bytes, int device) {
  const int failed = enter("cuDeviceGetPCIBusId");
  if (failed != kSuccess) return failed;
  std::snprintf(text, static_cast<size_t>(bytes), "0000:%02x:00.0", 1 + device);
  return exists(device) ? kSuccess : kInvalidDevice;
}

FAKE_CUDA int cuDevicePrimaryCtxRetain(void** context, int device) {
  const int failed = enter("cuDevicePrimaryCtxRetain");
  if (failed != kSuccess) return failed;
  if (!exists(device)) return kInvalidDevice;
  const Lock lock(state().mutex);
  ++state().primary[static_cast<size_t>(device)]->retained;
  *context = state().primary[static_cast<size_t>(device)].get();
  return kSuccess;
}

FAKE_CUDA int cuDevicePrimaryCtxRelease_v2(int device) {
  const int failed = enter("cuDevicePrimaryCtxRelease_v2");
  if (failed != kSuccess) return failed;
  const Lock lock(state().mutex);
  if (!exists(device) || state().primary[static_cast<size_t>(device)]->retained == 0) return kInvalidContext;
  --state().primary[static_cast<size_t>(device)]->retained;
  return kSuccess;
}

FAKE_CUDA int cuDevicePrimaryCtxGetState(int device, unsigned* flags, int* active) {
  const int failed = enter("cuDevicePrimaryCtxGetState");
  if (failed != kSuccess) return failed;
  if (!exists(device)) return kInvalidDevice;
  const Lock lock(state().mutex);
  *flags = 0;
  return *active = state().primary[static_cast<size_t>(device)]->retained > 0 ? 1 : 0, kSuccess;
}

FAKE_CUDA int cuCtxGetCurrent(void** context) {
  const int failed = enter("cuCtxGetCurrent");
  return *context = current(), failed;
}

FAKE_CUDA int cuCtxSetCurrent(void* context) {
  const int failed = enter("cuCtxSetCurrent");
  if (failed != kSuccess) return failed;
  if (!thread().contexts.empty()) thread().contexts.pop_back();
  if (context != nullptr) thread().contexts.push_back(static_cast<Context*>(context));
  return kSuccess;
}

FAKE_CUDA int cuCtxPushCurrent_v2(void* context) {
  const int failed = enter("cuCtxPushCurrent_v2");
  if (failed != kSuccess) return failed;
  if (context == nullptr) return kInvalidContext;
  thread().contexts.push_back(static_cast<Context*>(context));
  return kSuccess;
}

FAKE_CUDA int cuCtxPopCurrent_v2(void** context) {
  const int failed = enterInContext("cuCtxPopCurrent_v2");
  if (failed != kSuccess) return failed;
  if (context != nullptr) *context = current();
  thread().contexts.pop_back();
  return kSuccess;
}

FAKE_CUDA int cuCtxGetDevice(int* device) {
  const int failed = enterInContext("cuCtxGetDevice");
  if (failed != kSuccess) return failed;
  return *device = current()->device, kSuccess;
}

FAKE_CUDA int cuCtxGetStreamPriorityRange(int* least, int* greatest) {
  const int failed = enterInContext("cuCtxGetStreamPriorityRange");
  *least = 0;
  *greatest = -5;
  return failed;
}

FAKE_CUDA int cuGetErrorName(int, const char** text) { return *text = "an error of the double", kSuccess; }
FAKE_CUDA int cuGetErrorString(int, const char** text) { return *text = "an injected failure of the fake", kSuccess; }
