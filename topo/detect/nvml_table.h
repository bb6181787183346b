// Declares the few NVML functions that bps uses. NVML's own header comes with CUDA, which the build does not require.
#pragma once

namespace bps {

using NvmlDevice = void*;

struct NvmlPciInfo {
  char shortBusId[16];
  unsigned domain, bus, device, deviceId, subsystemId;
  char busId[32];  // "00000000:0A:00.0"
};

struct NvmlTable {  // all functions return 0 for success
  int (*init)();
  int (*shutdown)();
  int (*count)(unsigned*);
  int (*handle)(unsigned, NvmlDevice*);
  int (*pciInfo)(NvmlDevice, NvmlPciInfo*);
  int (*capability)(NvmlDevice, int*, int*);
  int (*linkState)(NvmlDevice, unsigned, int*);
  int (*linkPeer)(NvmlDevice, unsigned, NvmlPciInfo*);
};

}  // namespace bps
