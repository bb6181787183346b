// A double of libnvidia-ml.so.1 with one GPU of which nothing is known.
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
BPS_NVML int nvmlDeviceGetNvLinkState(void*, unsigned, int*) { return kNotSupported; }
BPS_NVML int nvmlDeviceGetNvLinkCapability(void*, unsigned, int, unsigned*) { return kNotSupported; }
BPS_NVML int nvmlDeviceGetNvLinkRemotePciInfo(void*, unsigned, void*) { return kNotSupported; }
BPS_NVML int nvmlDeviceGetFieldValues(void*, int, void*) { return kNotSupported; }
