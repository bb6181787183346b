#include "net_plugin/verbs/ib/library.h"

#include <dlfcn.h>

#include "src/base/format.h"

namespace bps::plugin::verbs {
namespace {

constexpr const char* kName = "libibverbs.so.1";

// dlsym() returns the default version of a symbol, which is the version that the header declares.
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
#define BPS_FIND(member, name) finder.find(library.member, #name);
  BPS_VERBS_FUNCTIONS(BPS_FIND)
#undef BPS_FIND
  finder.find(library.queryPort, "ibv_query_port");
  finder.find(library.regMr, "ibv_reg_mr");
  finder.findOptional(library.regDmaBufMr, "ibv_reg_dmabuf_mr");
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
