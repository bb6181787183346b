// Reads NVLinks from NVML, NVIDIA's management library. NVML is loaded at run time, because most
// machines that build or run bps have no NVIDIA driver.
#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <memory>

#include "src/base/format.h"
#include "topo/detect/detect.h"
#include "topo/detect/nvml_table.h"

namespace bps {
namespace {

constexpr unsigned kMaxNvlinks = 36;  // no GPU has more NVLinks

template <class F>
bool load(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

bool loadAll(void* library, NvmlTable& nvml) {
  return load(library, "nvmlInit_v2", nvml.init) && load(library, "nvmlShutdown", nvml.shutdown) &&
         load(library, "nvmlDeviceGetCount_v2", nvml.count) &&
         load(library, "nvmlDeviceGetHandleByIndex_v2", nvml.handle) &&
         load(library, "nvmlDeviceGetPciInfo_v3", nvml.pciInfo) &&
         load(library, "nvmlDeviceGetCudaComputeCapability", nvml.capability) &&
         load(library, "nvmlDeviceGetNvLinkState", nvml.linkState) &&
         load(library, "nvmlDeviceGetNvLinkRemotePciInfo_v2", nvml.linkPeer);
}

// Converts "00000000:0A:00.0" to "0000:0a:00.0", the form that sysfs uses.
std::string busIdOf(const NvmlPciInfo& info) {
  std::string id(info.busId, std::find(info.busId, info.busId + sizeof info.busId, '\0'));
  std::transform(id.begin(), id.end(), id.begin(), [](unsigned char c) { return std::tolower(c); });
  return id.substr(0, 4) == "0000" && id.find(':') == 8 ? id.substr(4) : id;
}

NodeId findGpu(const TopologyBuilder& builder, const std::string& busId) {
  for (NodeId id = 1; id < builder.nodes().size(); ++id)
    if (builder.nodes()[id].kind == NodeKind::kGpu && builder.nodes()[id].pcie.busId == busId) return id;
  return kNoNode;
}

// Adds the active NVLinks of a GPU, counted for each peer device. A peer device that is not a GPU
// of this machine counts as an NVSwitch.
void addLinks(TopologyBuilder& builder, const NvmlTable& nvml, NvmlDevice device, NodeId gpu) {
  std::map<std::string, int> peers;
  for (unsigned link = 0; link < kMaxNvlinks; ++link) {
    int active = 0;
    NvmlPciInfo peer{};
    if (nvml.linkState(device, link, &active) != 0 || active == 0) continue;
    if (nvml.linkPeer(device, link, &peer) != 0) continue;
    ++peers[busIdOf(peer)];
  }
  for (const auto& [busId, count] : peers)
    builder.add({.gpu = gpu, .target = busId, .toSwitch = findGpu(builder, busId) == kNoNode, .count = count});
}

void addGpu(TopologyBuilder& builder, const NvmlTable& nvml, unsigned index) {
  NvmlDevice device = nullptr;
  NvmlPciInfo info{};
  if (nvml.handle(index, &device) != 0 || nvml.pciInfo(device, &info) != 0) return;
  const NodeId gpu = findGpu(builder, busIdOf(info));
  if (gpu == kNoNode) return;
  int major = 0, minor = 0;
  if (nvml.capability(device, &major, &minor) == 0) builder.node(gpu).sm = 10 * major + minor;
  builder.node(gpu).dev = static_cast<int>(index);
  addLinks(builder, nvml, device, gpu);
}

}  // namespace

std::string addNvml(TopologyBuilder& builder, const char* library) {
  struct Close {
    void operator()(void* handle) const { ::dlclose(handle); }
  };
  const std::unique_ptr<void, Close> handle(::dlopen(library, RTLD_NOW | RTLD_LOCAL));
  if (handle == nullptr) return fmt::format("{} cannot be loaded", library);
  NvmlTable nvml{};
  if (!loadAll(handle.get(), nvml)) return fmt::format("{} lacks a function of NVML", library);
  if (nvml.init() != 0) return fmt::format("{}: nvmlInit_v2 failed", library);
  unsigned count = 0;
  if (nvml.count(&count) == 0)
    for (unsigned i = 0; i < std::min<unsigned>(count, TopologyBuilder::kMaxGpus); ++i) addGpu(builder, nvml, i);
  nvml.shutdown();
  return "";
}

}  // namespace bps
