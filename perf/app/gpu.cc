#include "perf/app/gpu.h"

#include <array>

#include "src/base/format.h"

namespace bps::perf {

Result<std::unique_ptr<Gpu>> Gpu::open(int rank, bool defaultStream) {
  // Drop the warnings here, because the library prints them.
  const Env env = BPS_TRY(processEnv([](const std::string&) {}));
  const cuda::Api* api = BPS_TRY(cuda::driverForEnv(env));
  if (api == nullptr) return std::unique_ptr<Gpu>();
  const int devices = BPS_TRY(cuda::Device::count(*api));
  cuda::Device* device = BPS_TRY(cuda::Device::open(*api, rank % devices));
  std::unique_ptr<Gpu> gpu(new Gpu(*device));
  std::array<char, 64> name{};
  api->deviceGetName(name.data(), name.size() - 1, device->ordinal());
  gpu->name_ = name.data();
  if (!defaultStream)
    BPS_TRY(cuda::check(*api, api->streamCreateWithPriority(&gpu->stream_, cuda::kNonBlocking, 0),
                        "cuStreamCreateWithPriority"));
  return gpu;
}

Gpu::~Gpu() {
  if (stream_ != nullptr) device_.api().streamDestroy(stream_);
}

Status Gpu::synchronize() {
  return cuda::check(device_.api(), device_.api().streamSynchronize(stream_), "cuStreamSynchronize");
}

Result<bool> Gpu::idle() const {
  const int state = device_.api().streamQuery(stream_);
  if (state == cuda::kNotReady) return false;
  BPS_TRY(cuda::check(device_.api(), state, "cuStreamQuery"));
  return true;
}

Result<void*> Gpu::allocate(size_t bytes) {
  cuda::Address address = 0;
  BPS_TRY(cuda::check(device_.api(), device_.api().memAlloc(&address, bytes), "cuMemAlloc")
              .within(fmt::format("{} bytes on CUDA device {}", bytes, device())));
  return reinterpret_cast<void*>(address);
}

void Gpu::release(void* memory) { device_.api().memFree(reinterpret_cast<cuda::Address>(memory)); }

Status Gpu::copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return {};
  const int copied = device_.api().memcpyAsync(reinterpret_cast<cuda::Address>(to),
                                               reinterpret_cast<cuda::Address>(from), bytes, stream_);
  BPS_TRY(cuda::check(device_.api(), copied, "cuMemcpyAsync"));
  return synchronize();
}

}  // namespace bps::perf
