#include "tests/unit/nccl/fake_gpu.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>

#include "src/nccl/real_nccl.h"

namespace bps::nccl {
namespace {

template <class... Parameters>
void succeed(int (*&function)(Parameters...)) {
  function = [](Parameters...) { return cuda::kSuccess; };
}

const cuda::Api& fakeDriver() {
  static const cuda::Api driver = [] {
    cuda::Api api;
    cuda::forEachFunction(api, [](const char*, auto& function) { succeed(function); });
    api.streamQuery = [](cuda::Stream) { return streamsIdle ? cuda::kSuccess : cuda::kNotReady; };
    return api;
  }();
  return driver;
}

std::string libraryPath() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path() / "nccl/libnccl.so.2";
}

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
}

}  // namespace

std::atomic<bool> streamsIdle{true};

cuda::Device& fakeDevice() {
  constexpr int kOrdinal = 77;  // no other test opens this device
  return *std::move(cuda::Device::open(fakeDriver(), kOrdinal)).value();
}

const FakeNccl& fakeNccl() {
  static const FakeNccl functions = [] {
    ::setenv("BPS_NCCL_LIB_PATH", libraryPath().c_str(), 1);
    FakeNccl found{};
    const bool isFound = findNccl() != nullptr;
    void* library = ::dlopen(libraryPath().c_str(), RTLD_NOW | RTLD_NOLOAD);
    if (!isFound || library == nullptr) std::abort();  // fails if bps had looked for another NCCL before
    find(library, "fakeNcclCalls", found.calls);
    find(library, "fakeNcclClearCalls", found.clearCalls);
    find(library, "fakeNcclFail", found.fail);
    ::unsetenv("BPS_NCCL_LIB_PATH");
    return found;
  }();
  return functions;
}

FakeGpuTest::FakeGpuTest() {
  directory_ = testing::TempDir() + "fake_gpu." + std::to_string(::getpid());
  std::filesystem::create_directories(directory_);
  ::setenv("FAKE_NCCL_DIR", directory_.c_str(), 1);
  streamsIdle = true;
  fakeNccl().clearCalls();
}

FakeGpuTest::~FakeGpuTest() {
  streamsIdle = true;
  std::filesystem::remove_all(directory_);
}

std::string FakeGpuTest::takeCalls() {
  std::string calls = fakeNccl().calls();
  fakeNccl().clearCalls();
  return calls;
}

ncclComm_t FakeGpuTest::makeComm(bool blocking) {
  ncclUniqueId id;
  ncclComm_t comm = nullptr;
  bpsConfig_t config = BPS_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  EXPECT_EQ(BPS_REAL(ncclGetUniqueId, &id), ncclSuccess);
  ncclResult_t state = BPS_REAL(ncclCommInitRankConfig, &comm, 1, id, 0, reinterpret_cast<ncclConfig_t*>(&config));
  while (state == ncclInProgress) EXPECT_EQ(BPS_REAL(ncclCommGetAsyncError, comm, &state), ncclSuccess);
  EXPECT_EQ(state, ncclSuccess);
  fakeNccl().clearCalls();
  return comm;
}

Call FakeGpuTest::makeCall(size_t count) {
  send_.assign(count, 3);
  recv_.assign(count, 0);
  return {send_.data(), recv_.data(), count, ncclFloat32, ncclSum, nullptr, nullptr, {}};
}

}  // namespace bps::nccl
