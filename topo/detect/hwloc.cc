// The only file that knows hwloc. It is found at run time, as NVML is: Debian's static hwloc cannot be part of a shared
// library, and libbps.so must not need it on every machine. Declared here is the little of its interface (that of
// libhwloc.so.15, hwloc 2) that is used: what it finds is taken as XML.
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
  if (hwloc.init(&raw) != 0) return Status(Code::kSystem, "hwloc cannot start");
  const std::unique_ptr<hwloc_topology, void (*)(HwlocTopology)> topology(raw, hwloc.destroy);
  // Never through a GPU's run-time library: that would start it in every process that uses bps. Nor through a plugin
  // where Linux itself can say it (pci): machines with and without plugins look alike.
  for (const char* component : {"cuda", "nvml", "opencl", "gl", "rsmi", "levelzero", "pci"})
    (void)hwloc.setComponents(raw, kBlacklist, component);
  (void)hwloc.setIoTypesFilter(raw, kKeepAll);
  (void)hwloc.setCacheTypesFilter(raw, kKeepNone);
  if (hwloc.load(raw) != 0) return Status(Code::kSystem, "hwloc cannot see this machine");
  char* text = nullptr;
  int length = 0;
  if (hwloc.exportXml(raw, &text, &length, 0) != 0) return Status(Code::kSystem, "hwloc cannot write what it sees");
  std::string xml(text);
  hwloc.freeXml(raw, text);
  return xml;
}

}  // namespace

Result<std::string> hwlocXml(const char* library) {
  // What it asks (libudev) has state of the whole process and no lock for it.
  static Mutex oneAtATime;
  const MutexLock lock(oneAtATime);
  struct Close {
    void operator()(void* handle) const { ::dlclose(handle); }
  };
  const std::unique_ptr<void, Close> handle(::dlopen(library, RTLD_NOW | RTLD_LOCAL));
  if (handle == nullptr)
    return failure(Code::kSystem, "{} is not there: install libhwloc15, or name a topology in BPS_TOPO_FILE", library);
  Hwloc hwloc{};
  if (!findAll(handle.get(), hwloc)) return failure(Code::kSystem, "{} lacks a function of hwloc 2.1", library);
  return exportTopologyXml(hwloc);
}

}  // namespace bps
