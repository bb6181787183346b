#include "net_plugin/verbs/ib/library.h"

#include <dlfcn.h>

#include "src/base/format.h"

namespace bps::plugin::verbs {
namespace {

constexpr const char* kName = "libibverbs.so.1";

// dlsym returns the default version of a symbol, which is the one that the header declares.
struct Finder {
  void* library;
  const char* missing = nullptr;

  template <class Function>
  void find(Function& function, const char* name) {
    findOptional(function, name);
    if (function == nullptr) missing = name;
  }
  template <class Function>
  void findOptional(Function& function, const char* name) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
  }
};

Result<Library> load() {
  void* handle = ::dlopen(kName, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return failure(Code::kSystem, "{} (rdma-core) cannot be loaded: {}", kName, ::dlerror());
  Library library;
  Finder finder{handle};
  finder.find(library.getDeviceList, "ibv_get_device_list");
  finder.find(library.freeDeviceList, "ibv_free_device_list");
  finder.find(library.getDeviceName, "ibv_get_device_name");
  finder.find(library.openDevice, "ibv_open_device");
  finder.find(library.closeDevice, "ibv_close_device");
  finder.find(library.queryDevice, "ibv_query_device");
  finder.find(library.queryPort, "ibv_query_port");
  finder.find(library.allocPd, "ibv_alloc_pd");
  finder.find(library.deallocPd, "ibv_dealloc_pd");
  finder.find(library.regMr, "ibv_reg_mr");
  finder.findOptional(library.regDmaBufMr, "ibv_reg_dmabuf_mr");
  finder.find(library.deregMr, "ibv_dereg_mr");
  finder.find(library.createCompChannel, "ibv_create_comp_channel");
  finder.find(library.destroyCompChannel, "ibv_destroy_comp_channel");
  finder.find(library.createCq, "ibv_create_cq");
  finder.find(library.destroyCq, "ibv_destroy_cq");
  finder.find(library.getCqEvent, "ibv_get_cq_event");
  finder.find(library.ackCqEvents, "ibv_ack_cq_events");
  finder.find(library.createQp, "ibv_create_qp");
  finder.find(library.modifyQp, "ibv_modify_qp");
  finder.find(library.destroyQp, "ibv_destroy_qp");
  finder.find(library.wcStatusStr, "ibv_wc_status_str");
  if (finder.missing != nullptr) return failure(Code::kSystem, "{} is too old: it has no {}", kName, finder.missing);
  return library;
}

}  // namespace

// The caller holds the lock of the process-wide device list.
Result<const Library*> Library::open() {
  static const Library* opened = nullptr;
  if (opened == nullptr) opened = new Library(BPS_TRY(load()));
  return opened;
}

}  // namespace bps::plugin::verbs
