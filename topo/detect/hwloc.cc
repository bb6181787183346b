// This is the only file that calls hwloc. It loads hwloc at run time, because libbps.so must also
// load on machines without hwloc, and because Debian's static hwloc cannot be linked into a shared
// library. This file declares the few functions of hwloc 2 (libhwloc.so.15) that it calls. hwloc
// exports the result as XML.
#include <dlfcn.h>

#include <memory>

#include "src/base/format.h"
#include "src/base/mutex.h"
#include "topo/detect/detect.h"

namespace bps {
namespace {

constexpr int kKeepAll = 0, kKeepNone = 1;  // enum hwloc_type_filter_e
constexpr unsigned long kBlacklist = 1;     // HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST

using HwlocTopology = struct hwloc_topology*;

struct Hwloc {
  int (*init)(HwlocTopology*);
  void (*destroy)(HwlocTopology);
  int (*setComponents)(HwlocTopology, unsigned long flags, const char* name);
  int (*setIoTypesFilter)(HwlocTopology, int filter);
  int (*setCacheTypesFilter)(HwlocTopology, int filter);
  int (*load)(HwlocTopology);
  int (*exportXml)(HwlocTopology, char** text, int* length, unsigned long flags);
  void (*freeXml)(HwlocTopology, char* text);
};

template <class F>
bool find(void* library, const char* name, F& function) {
  function = reinterpret_cast<F>(::dlsym(library, name));
  return function != nullptr;
}

bool findAll(void* library, Hwloc& hwloc) {
  return find(library, "hwloc_topology_init", hwloc.init) && find(library, "hwloc_topology_destroy", hwloc.destroy) &&
         find(library, "hwloc_topology_set_components", hwloc.setComponents) &&
         find(library, "hwloc_topology_set_io_types_filter", hwloc.setIoTypesFilter) &&
         find(library, "hwloc_topology_set_cache_types_filter", hwloc.setCacheTypesFilter) &&
         find(library, "hwloc_topology_load", hwloc.load) &&
         find(library, "hwloc_topology_export_xmlbuffer", hwloc.exportXml) &&
         find(library, "hwloc_free_xmlbuffer", hwloc.freeXml);
}

Result<std::string> exportTopologyXml(const Hwloc& hwloc) {
  HwlocTopology raw = nullptr;
  if (hwloc.init(&raw) != 0) return Status(Code::kSystem, "hwloc_topology_init failed");
  const std::unique_ptr<hwloc_topology, void (*)(HwlocTopology)> topology(raw, hwloc.destroy);
  // Disable hwloc's GPU components, which would initialize the GPU's runtime library in every
  // process that uses bps. Disable hwloc's component pci too. Linux reports the same devices, so
  // that the result does not depend on which hwloc plugins are installed.
  for (const char* component : {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "pci"})
    (void)hwloc.setComponents(raw, kBlacklist, component);
  (void)hwloc.setIoTypesFilter(raw, kKeepAll);
  (void)hwloc.setCacheTypesFilter(raw, kKeepNone);
  if (hwloc.load(raw) != 0)
    return Status(Code::kSystem, "hwloc_topology_load failed: hwloc cannot detect this machine");
  char* text = nullptr;
  int length = 0;
  if (hwloc.exportXml(raw, &text, &length, 0) != 0)
    return Status(Code::kSystem, "hwloc_topology_export_xmlbuffer failed");
  std::string xml(text);
  hwloc.freeXml(raw, text);
  return xml;
}

}  // namespace

Result<std::string> hwlocXml(const char* library) {
  // Only one thread at a time may call hwloc, because hwloc calls libudev, which has process-wide
  // state without a lock.
  static Mutex oneAtATime;
  const MutexLock lock(oneAtATime);
  // The library stays loaded: libudev, which hwloc brings along, has thread-local variables, and
  // unloading such a library while other threads start is not safe everywhere (ThreadSanitizer).
  void* const handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr)
    return failure(Code::kSystem, "{} cannot be loaded: install libhwloc15, or set BPS_TOPO_FILE to a topology",
                   library);
  Hwloc hwloc{};
  if (!findAll(handle, hwloc))
    return failure(Code::kSystem, "{} lacks a function of hwloc 2.1; install hwloc 2.1 or later", library);
  return exportTopologyXml(hwloc);
}

}  // namespace bps
