// Allocates the buffers of the tests on the host or on a device of the fake CUDA driver.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "src/base/format.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/interpose/harness.h"

namespace bps::test {
namespace {

// Calls a function of the loaded CUDA driver, which is the fake. Ends the process if the function
// fails.
template <class... Parameters>
void driver(const char* name, Parameters... parameters) {
  static void* const library = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) failed(__FILE__, __LINE__, ::dlerror());
  auto* function = reinterpret_cast<int (*)(Parameters...)>(::dlsym(library, name));
  if (function == nullptr) failed(__FILE__, __LINE__, name);
  const int error = function(parameters...);
  if (error != 0) failed(__FILE__, __LINE__, fmt::format("{}: error {}", name, error));
}

// Makes the context of the device current on the calling thread, as the CUDA runtime does.
void enterDevice() {
  thread_local bool inside = false;
  if (std::exchange(inside, true)) return;
  driver("cuInit", 0U);
  int device = 0;
  void* context = nullptr;
  const char* given = std::getenv("FAKE_NCCL_DEVICE");
  driver("cuDeviceGet", &device, given != nullptr ? std::atoi(given) : 0);
  driver("cuDevicePrimaryCtxRetain", &context, device);
  driver("cuCtxPushCurrent_v2", context);
}

// Returns a function that only the fake driver has, or null if the fake driver is not loaded.
template <class Function>
Function* fakeSymbol(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
}

float* alias(void* pointer) {
  return static_cast<float*>(fakeSymbol<decltype(fakeCudaAlias)>("fakeCudaAlias")(pointer));
}

}  // namespace

uint64_t cudaCallCount(const char* function) {
  const auto calls = fakeSymbol<decltype(fakeCudaCalls)>("fakeCudaCalls");
  return calls != nullptr ? calls(function) : 0;
}

uint64_t copiedBytes() { return cudaCallCount("copied bytes"); }

void setCopyRate(double bytesPerSecond) {
  if (const auto set = fakeSymbol<decltype(fakeCudaCopyRate)>("fakeCudaCopyRate")) set(bytesPerSecond);
}

void failCuda(const char* function, unsigned after, int error) {
  if (const auto fail = fakeSymbol<decltype(fakeCudaFail)>("fakeCudaFail")) fail(function, after, error);
}

bool onDevice() {
  const char* device = std::getenv("BPS_DEVICE");
  return device != nullptr && std::string(device) == "cuda";
}

cudaStream_t newStream() {
  if (!onDevice()) return nullptr;
  enterDevice();
  void* made = nullptr;
  driver("cuStreamCreate", &made, 1U);
  return static_cast<cudaStream_t>(made);
}

cudaStream_t stream() {
  static const cudaStream_t made = newStream();
  return made;
}

void synchronize(cudaStream_t which) {
  if (!onDevice()) return;
  enterDevice();
  driver("cuStreamSynchronize", static_cast<void*>(which));
}

bool idle(cudaStream_t which) {
  return !onDevice() || fakeSymbol<int(void*)>("cuStreamQuery")(static_cast<void*>(which)) == 0;
}

void launch(void (*body)(void*), void* argument) {
  fakeSymbol<decltype(fakeCudaLaunch)>("fakeCudaLaunch")(static_cast<void*>(stream()), body, argument);
}

Buffer::Buffer(size_t count, float value) : count_(count) {
  if (onDevice()) {
    enterDevice();
    driver("cuMemAlloc_v2", reinterpret_cast<uintptr_t*>(&data_), count * sizeof(float));
    floats_ = alias(data_);
  } else {
    data_ = floats_ = static_cast<float*>(std::malloc(count * sizeof(float)));
  }
  std::fill(begin(), end(), value);
}

Buffer::~Buffer() {
  if (onDevice()) driver("cuMemFree_v2", reinterpret_cast<uintptr_t>(data_));
  else std::free(data_);
}

bool Buffer::all(float value) const {
  return std::all_of(begin(), end(), [&](float one) { return one == value; });
}

void contribute(const Buffer& buffer, int rank) {
  for (size_t i = 0; i < buffer.size(); ++i)
    buffer.begin()[i] = static_cast<float>((i + 1) % 1000 * static_cast<size_t>(rank + 1));
}

bool Buffer::isSum(int nRanks) const {
  const auto ranks = static_cast<size_t>(nRanks);
  for (size_t i = 0; i < count_; ++i)
    if (floats_[i] != static_cast<float>((i + 1) % 1000 * (ranks * (ranks + 1) / 2))) return false;
  return true;
}

ncclResult_t allReduce(const Rank& rank, ncclComm_t comm, size_t count, cudaStream_t on) {
  auto mine = std::make_unique<Buffer>(count), sum = std::make_unique<Buffer>(count);
  contribute(*mine, rank.rank);
  ncclResult_t state = ncclAllReduce(mine->data(), sum->data(), count, ncclFloat32, ncclSum, comm, on);
  for (bool done = false; state == ncclSuccess && !done; std::this_thread::sleep_for(std::chrono::microseconds(100))) {
    done = idle(on);
    BPS_NCCL(ncclCommGetAsyncError(comm, &state));
  }
  if (state == ncclSuccess) {
    BPS_CHECK(sum->isSum(rank.nRanks));
  } else {  // the driver may wait for the stream when memory is freed
    (void)mine.release();
    (void)sum.release();
  }
  return state;
}

ncclResult_t awaitError(ncclComm_t comm) {
  for (ncclResult_t state = ncclSuccess;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
    BPS_NCCL(ncclCommGetAsyncError(comm, &state));
    if (state != ncclSuccess && state != ncclInProgress) return state;
  }
}

}  // namespace bps::test
