#include "src/nccl/real_nccl.h"

#include <dlfcn.h>
#include <link.h>

#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "src/base/env.h"
#include "src/base/log.h"

namespace bps::nccl {
namespace {

constexpr const char* kName = "libnccl.so.2";
constexpr const char* kProbe = "pncclAllReduce";  // every NCCL since 2.0 exports it

const void* objectOf(const void* address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// True if the handle leads to NCCL, and not to bps under NCCL's name.
bool isNccl(void* handle) {
  const void* function = ::dlsym(handle, kProbe);
  return function != nullptr && objectOf(function) != objectOf(reinterpret_cast<const void*>(&objectOf));
}

void* open(const std::string& path, int flags) {
  void* handle = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | flags);
  return handle != nullptr && isNccl(handle) ? handle : nullptr;
}

std::vector<std::string> loadedLibraries() {
  std::vector<std::string> paths;
  const auto note = [](dl_phdr_info* info, size_t, void* out) {
    const std::string_view path(info->dlpi_name);
    if (path.substr(path.rfind('/') + 1).substr(0, 10) == "libnccl.so")
      static_cast<std::vector<std::string>*>(out)->emplace_back(path);
    return 0;
  };
  ::dl_iterate_phdr(note, &paths);
  return paths;
}

// Returns the directories of the dynamic linker, including those of LD_LIBRARY_PATH, and the usual
// directories of CUDA.
std::vector<std::string> searchDirectories() {
  std::vector<std::string> found;
  void* program = ::dlopen(nullptr, RTLD_NOW);
  Dl_serinfo size{};
  if (program != nullptr && ::dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0) {
    const std::unique_ptr<char[]> bytes(new char[size.dls_size]);
    auto* list = reinterpret_cast<Dl_serinfo*>(bytes.get());
    list->dls_size = size.dls_size;
    list->dls_cnt = size.dls_cnt;
    if (::dlinfo(program, RTLD_DI_SERINFO, list) == 0)
      for (unsigned i = 0; i < list->dls_cnt; ++i) found.emplace_back(list->dls_serpath[i].dls_name);
  }
  for (const char* usual : {"/usr/local/cuda/lib64", "/usr/local/cuda/lib", "/usr/local/lib"})
    found.emplace_back(usual);
  return found;
}

// Parses BPS_NCCL_LIB_PATH alone. If another variable is invalid, all calls still go to the real
// library.
std::string libPath() {
  Result<Env> env = parseEnv([](const char* name) -> const char* {
    return std::strcmp(name, "BPS_NCCL_LIB_PATH") == 0 ? processLookup()(name) : nullptr;
  });
  return env.ok() ? std::move(env).value().ncclLibPath : std::string();
}

void* findLibrary() {
  const std::string given = libPath();
  if (!given.empty()) return open(given, 0);
  if (void* handle = open(kName, RTLD_NOLOAD)) return handle;
  for (const std::string& path : loadedLibraries())
    if (void* handle = open(path, RTLD_NOLOAD)) return handle;
  if (isNccl(RTLD_NEXT)) return RTLD_NEXT;
  if (void* handle = open(kName, 0)) return handle;
  for (const std::string& directory : searchDirectories())
    if (void* handle = open(directory + "/" + kName, 0)) return handle;
  return nullptr;
}

// The NCCL library of the process. It is the only mutable state in src/nccl that belongs to no
// handle.
struct ProcessLibrary {
  std::atomic<const RealNccl*> found{nullptr};
  std::atomic<bool> loggedNotFound{false};
};
ProcessLibrary& processLibrary() {
  static ProcessLibrary library;
  return library;
}

void logNotFound() {
  if (processLibrary().loggedNotFound.exchange(true)) return;
  const std::string given = libPath();
  if (given.empty())
    logWarn(Subsystem::kInit,
            "no NCCL: {} is neither loaded nor found by the dynamic linker; BPS_NCCL_LIB_PATH names the real library",
            kName);
  else logWarn(Subsystem::kInit, "no NCCL: BPS_NCCL_LIB_PATH={} cannot be opened or has no {}", given, kProbe);
}

template <class Function>
void resolve(Function& function, void* handle, const char* privateName) {
  function = reinterpret_cast<Function>(::dlsym(handle, privateName));
}

std::unique_ptr<RealNccl> load() {
  void* handle = findLibrary();
  if (handle == nullptr) return nullptr;
  auto real = std::make_unique<RealNccl>();
#define BPS_RESOLVE(result, name, parameters, arguments) resolve(real->name, handle, "p" #name);
  BPS_NCCL_FUNCTIONS(BPS_RESOLVE, BPS_RESOLVE)
#undef BPS_RESOLVE
  Dl_info info{};
  if (::dladdr(reinterpret_cast<const void*>(real->ncclAllReduce), &info) != 0 && info.dli_fname != nullptr)
    real->path = info.dli_fname;
  return real;
}

}  // namespace

const RealNccl* findNccl() {
  std::atomic<const RealNccl*>& found = processLibrary().found;
  if (const RealNccl* real = found.load(std::memory_order_acquire)) return real;
  std::unique_ptr<RealNccl> mine = load();
  if (mine == nullptr) return nullptr;
  const RealNccl* first = nullptr;  // if several threads search at once, the first result stays
  if (!found.compare_exchange_strong(first, mine.get(), std::memory_order_acq_rel)) return first;
  return mine.release();
}

const RealNccl* realNccl() {
  const RealNccl* real = findNccl();
  if (real == nullptr) logNotFound();
  return real;
}

void logMissing(const char* name) {
  const RealNccl* real = realNccl();
  logWarn(Subsystem::kInit, "{} was called, and {} has no such function", name, real != nullptr ? real->path : "NCCL");
}

}  // namespace bps::nccl
