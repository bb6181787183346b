#include "tests/gpu_ranks/device_buffer.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace bps::test {
namespace {

void must(const Status& done) {
  if (!done.ok()) fail(done.message());
}
void must(int error, const char* function) { must(cuda::check(gpu().api(), error, function)); }

}  // namespace

void fail(const std::string& what) {
  std::printf("wrong: %s\n", what.c_str());
  // Use standard error too, because bps-run forwards nothing else from ranks other than 0.
  std::fprintf(stderr, "wrong: %s\n", what.c_str());
  std::exit(1);
}

namespace {
int chosen = 0;
}  // namespace

void chooseGpu(int number) { chosen = number; }

const cuda::Device& gpu() {
  static const cuda::Device* const opened = [] {
    ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);  // makes the fake CUDA driver visible to the fake NCCL
    Result<const cuda::Api*> api = cuda::driver();
    if (!api.ok()) fail(api.error().message());
    const cuda::Api& driver = *std::move(api).value();
    Result<int> count = cuda::Device::count(driver);
    const int devices = count.ok() ? std::move(count).value() : 0;
    if (devices == 0) fail("no CUDA device");
    Result<cuda::Device*> device = cuda::Device::open(driver, chosen % devices);
    if (!device.ok()) fail(device.error().message());
    return std::move(device).value();
  }();
  static thread_local const cuda::ScopedContext inside(*opened);
  return *opened;
}

Stream::Stream() { must(gpu().api().streamCreateWithPriority(&stream_, 0, 0), "cuStreamCreateWithPriority"); }
Stream::~Stream() { gpu().api().streamDestroy(stream_); }
void Stream::synchronize() const { must(gpu().api().streamSynchronize(stream_), "cuStreamSynchronize"); }
bool Stream::idle() const { return gpu().api().streamQuery(stream_) == cuda::kSuccess; }

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  must(gpu().api().memAlloc(&address_, bytes), "cuMemAlloc");
  Result<cuda::PinnedMemory> pinned = cuda::PinnedMemory::create(gpu(), bytes);
  must(pinned.error());
  host_.emplace(std::move(pinned).value());
}
Buffer::~Buffer() { gpu().api().memFree(address_); }

void Buffer::copy(cuda::Address to, cuda::Address from, size_t bytes, const Stream& stream) {
  must(gpu().api().memcpyAsync(to, from, bytes, stream.get()), "cuMemcpyAsync");
}

}  // namespace bps::test
