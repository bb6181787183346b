#include "src/cuda/driver.h"

#include <dlfcn.h>

#include <string_view>
#include <type_traits>

#include "src/base/format.h"
#include "src/base/log.h"

namespace bps::cuda {
namespace {

constexpr const char* kLibrary = "libcuda.so.1";

Status load(Api& api) {
  void* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return failure(Code::kUnhandledCuda, "no CUDA driver: {}", ::dlerror());
  const char* missing = nullptr;
  forEachFunction(api, [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    // bps works without these functions. Device, GpuMemory and SumKernel check for them.
    const std::string_view symbol = name;
    const bool optional = symbol == "cuStreamWaitValue32_v2" || symbol == "cuStreamWriteValue32_v2" ||
                          symbol == "cuMemGetHandleForAddressRange" || symbol == "cuModuleLoadData" ||
                          symbol == "cuModuleGetFunction" || symbol == "cuLaunchKernel";
    if (function == nullptr && !optional) missing = name;
  });
  if (missing != nullptr) return failure(Code::kUnhandledCuda, "the CUDA driver is too old, it has no {}", missing);
  int count = 0;
  BPS_TRY(check(api, api.init(0), "cuInit"));
  BPS_TRY(check(api, api.deviceGetCount(&count), "cuDeviceGetCount"));
  if (count == 0) return {Code::kUnhandledCuda, "the CUDA driver has no device"};
  return {};
}

struct Loaded {
  Api api;
  Status status = load(api);
};

}  // namespace

Result<const Api*> driver() {
  static const auto* loaded = new Loaded;  // never freed, because streams may still wait for bps
  if (!loaded->status.ok()) return loaded->status.clone();
  return &loaded->api;
}

Result<const Api*> driverForEnv(const Env& env) {
  if (env.device == "host") return nullptr;
  Result<const Api*> found = driver();
  if (found.ok() || env.device == "cuda") return found;
  logInfo(Subsystem::kInit, "host memory only: {}", found.error().message());
  return nullptr;
}

Status check(const Api& api, int error, const char* function) {
  if (error == kSuccess) return {};
  const char *name = nullptr, *text = nullptr;
  api.getErrorName(error, &name);
  api.getErrorString(error, &text);
  return failure(Code::kUnhandledCuda, "{}: {} ({}): {}", function, name != nullptr ? name : "unknown error", error,
                 text != nullptr ? text : "no text");
}

}  // namespace bps::cuda
