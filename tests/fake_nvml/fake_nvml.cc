// A fake NVML with three GPUs. GPUs 0 and 1 have two NVLinks to each other, and each of them has
// one NVLink to an NVSwitch. GPU 2 has no NVLink.
#include <cstdint>
#include <cstdio>

#include "topo/detect/nvml_table.h"

#define BPS_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

int fill(bps::NvmlPciInfo* info, unsigned bus) {
  *info = {};
  (void)std::snprintf(info->busId, sizeof info->busId, "00000000:%02X:00.0", bus);
  return 0;
}

unsigned indexOf(void* device) { return static_cast<unsigned>(reinterpret_cast<uintptr_t>(device)) - 1; }

}  // namespace

BPS_EXPORT int nvmlInit_v2();
BPS_EXPORT int nvmlShutdown();
BPS_EXPORT int nvmlDeviceGetCount_v2(unsigned* count);
BPS_EXPORT int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device);
BPS_EXPORT int nvmlDeviceGetPciInfo_v3(void* device, bps::NvmlPciInfo* info);
BPS_EXPORT int nvmlDeviceGetCudaComputeCapability(void* device, int* major, int* minor);
BPS_EXPORT int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active);
BPS_EXPORT int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, bps::NvmlPciInfo* info);

int nvmlInit_v2() { return 0; }
int nvmlShutdown() { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 3;
  return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  *device = reinterpret_cast<void*>(uintptr_t{index} + 1);
  return 0;
}
int nvmlDeviceGetPciInfo_v3(void* device, bps::NvmlPciInfo* info) { return fill(info, indexOf(device)); }
int nvmlDeviceGetCudaComputeCapability(void* /*device*/, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return 0;
}
// Link 2 is inactive. Link 3 is connected to the NVSwitch.
int nvmlDeviceGetNvLinkState(void* device, unsigned link, int* active) {
  if (link > 3) return 3;
  *active = indexOf(device) < 2 && link != 2 ? 1 : 0;
  return 0;
}
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned link, bps::NvmlPciInfo* info) {
  return fill(info, link == 3 ? 0xAB : 1 - indexOf(device));
}
