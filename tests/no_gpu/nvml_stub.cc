// A stub of libnvidia-ml.so.1 with one GPU, whose compute capability is its only known property.
#define BPS_NVML extern "C" __attribute__((visibility("default")))

namespace {
constexpr int kSuccess = 0, kNotSupported = 3;
int theGpu;
}  // namespace

BPS_NVML int nvmlInit_v2() { return kSuccess; }
BPS_NVML int nvmlShutdown() { return kSuccess; }
BPS_NVML const char* nvmlErrorString(int) { return "there is no GPU"; }
BPS_NVML int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 1, kSuccess; }
BPS_NVML int nvmlDeviceGetHandleByPciBusId(const char*, void** gpu) { return *gpu = &theGpu, kSuccess; }
BPS_NVML int nvmlDeviceGetHandleByIndex(unsigned, void** gpu) { return *gpu = &theGpu, kSuccess; }
BPS_NVML int nvmlDeviceGetIndex(void*, unsigned* index) { return *index = 0, kSuccess; }
BPS_NVML int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  return *major = 8, *minor = 0, kSuccess;
}
BPS_NVML int nvmlDeviceGetP2PStatus(void*, void*, int, int* status) { return *status = 1, kSuccess; }

// Defines a function that ignores its arguments and reports that it is not supported.
#define BPS_NVML_UNKNOWN(function) \
  BPS_NVML int function() { return kNotSupported; }
BPS_NVML_UNKNOWN(nvmlDeviceGetNvLinkState)
BPS_NVML_UNKNOWN(nvmlDeviceGetNvLinkCapability)
BPS_NVML_UNKNOWN(nvmlDeviceGetNvLinkRemotePciInfo)
BPS_NVML_UNKNOWN(nvmlDeviceGetFieldValues)
BPS_NVML_UNKNOWN(nvmlDeviceGetPciInfo_v3)
BPS_NVML_UNKNOWN(nvmlDeviceGetPciInfoExt)
BPS_NVML_UNKNOWN(nvmlDeviceGetPcieLinkMaxSpeed)
BPS_NVML_UNKNOWN(nvmlDeviceGetCurrPcieLinkGeneration)
BPS_NVML_UNKNOWN(nvmlDeviceGetCurrPcieLinkWidth)
BPS_NVML_UNKNOWN(nvmlDeviceGetGpuFabricInfoV)
BPS_NVML_UNKNOWN(nvmlDeviceGetPlatformInfo)
BPS_NVML_UNKNOWN(nvmlSystemGetConfComputeState)
BPS_NVML_UNKNOWN(nvmlSystemGetConfComputeSettings)
