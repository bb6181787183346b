#include "src/cuda/sum/sum_loader.h"

#include <algorithm>
#include <map>
#include <string>

#include "src/base/format.h"
#include "src/base/mutex.h"

namespace bps::cuda {
namespace {

// The text in several parts, because compilers limit the length of a literal.
constexpr const char* kModule[] = {
#include "src/cuda/sum/sum_kernel.ptx"
};

constexpr unsigned kBlockThreads = 256, kMaxBlocks = 1024;
// Values for cuLaunchKernel's parameter `extra`: CU_LAUNCH_PARAM_END, _BUFFER_POINTER and _BUFFER_SIZE.
constexpr uintptr_t kEnd = 0, kBufferPointer = 1, kBufferSize = 2;

void* option(uintptr_t value) { return reinterpret_cast<void*>(value); }

}  // namespace

Result<const SumKernel*> SumKernel::load(const Device& device) {
  static Mutex mutex;
  static auto* const loaded = new std::map<int, const SumKernel*>;  // by device; never freed
  const MutexLock lock(mutex);
  const SumKernel*& kernel = (*loaded)[device.ordinal()];
  if (kernel == nullptr) kernel = BPS_TRY(create(device));
  return kernel;
}

Result<const SumKernel*> SumKernel::create(const Device& device) {
  const Api& api = device.api();
  if (api.moduleLoadData == nullptr || api.moduleGetFunction == nullptr || api.launchKernel == nullptr)
    return Status(Code::kUnhandledCuda,
                  "the CUDA driver has no cuModuleLoadData, cuModuleGetFunction or cuLaunchKernel");
  std::string text;
  for (const char* part : kModule) text += part;
  const ScopedContext scope(device);
  Module module = nullptr;
  Function function = nullptr;
  BPS_TRY(check(api, api.moduleLoadData(&module, text.c_str()), "cuModuleLoadData"));
  BPS_TRY(check(api, api.moduleGetFunction(&function, module, kSumKernelName), "cuModuleGetFunction"));
  std::unique_ptr<SumKernel> kernel(new SumKernel(device, function));
  // The driver may load the code in the first launch. This launch combines no element.
  const std::unique_ptr<OwnedStream> stream = BPS_TRY(OwnedStream::create(device, OwnedStream::Use::kWaits));
  BPS_TRY(kernel->launch({}, stream->get()));
  return kernel.release();
}

Status SumKernel::launch(const SumArguments& sum, Stream stream) const {
  SumArguments parameters = sum;
  size_t bytes = sizeof parameters;
  void* extra[] = {option(kBufferPointer), &parameters, option(kBufferSize), &bytes, option(kEnd)};
  const uint64_t blocks = std::clamp<uint64_t>((sum.count + kBlockThreads - 1) / kBlockThreads, 1, kMaxBlocks);
  const ScopedContext scope(device_);
  const Api& api = device_.api();
  return check(
      api,
      api.launchKernel(function_, static_cast<unsigned>(blocks), 1, 1, kBlockThreads, 1, 1, 0, stream, nullptr, extra),
      "cuLaunchKernel");
}

}  // namespace bps::cuda
