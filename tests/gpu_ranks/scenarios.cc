#include "tests/gpu_ranks/scenarios.h"

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <thread>
#include <type_traits>
#include <vector>

#include "src/base/format.h"
#include "tests/gpu_ranks/job.h"
#include "tests/gpu_ranks/measure.h"

namespace bps::test {
namespace {

constexpr auto kLate = std::chrono::milliseconds(300);
constexpr auto kChildLimit = std::chrono::seconds(20);

// A function of the driver that bps itself does not use. Null if the driver lacks it.
template <class Function>
Function driverFunction(const char* name) {
  gpu();
  return reinterpret_cast<Function>(::dlsym(RTLD_DEFAULT, name));
}

void mustBeZero(int error, const char* function) {
  if (error != 0) fail(fmt::format("{}: CUDA error {}", function, error));
}

// An empty kernel, which any device of compute capability 5.0 or newer can run.
constexpr const char* kEmptyKernel =
    ".version 6.4\n.target sm_50\n.address_size 64\n.visible .entry empty() { ret; }\n";

// Loads and launches a kernel that this process has not launched before.
void firstLaunch(const Stream& stream) {
  if (const auto fake = driverFunction<int (*)(void*, void (*)(void*), void*)>("fakeCudaFirstLaunch"))
    return mustBeZero(fake(
                          stream.get(), [](void*) {}, nullptr),
                      "fakeCudaFirstLaunch");
  const auto load = driverFunction<int (*)(void**, const void*)>("cuModuleLoadData");
  const auto find = driverFunction<int (*)(void**, void*, const char*)>("cuModuleGetFunction");
  using Launch = int (*)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, cuda::Stream,
                         void**, void**);
  const auto launch = driverFunction<Launch>("cuLaunchKernel");
  if (load == nullptr || find == nullptr || launch == nullptr) fail("the driver has no cuLaunchKernel");
  void *module = nullptr, *kernel = nullptr;
  mustBeZero(load(&module, kEmptyKernel), "cuModuleLoadData");
  mustBeZero(find(&kernel, module, "empty"), "cuModuleGetFunction");
  mustBeZero(launch(kernel, 1, 1, 1, 1, 1, 1, 0, stream.get(), nullptr, nullptr), "cuLaunchKernel");
}

void fill(const Buffer& buffer, size_t count, int rank, const Stream& stream) {
  for (size_t i = 0; i < count; ++i) buffer.floats()[i] = inputValue(i, rank);
  buffer.upload(stream);
}

void expectSum(const Buffer& buffer, size_t count, const Stream& stream) {
  buffer.download(stream);
  stream.synchronize();
  for (size_t i = 0; i < count; ++i)
    if (buffer.floats()[i] != inputValue(i, 0) + inputValue(i, 1)) fail(fmt::format("element {} of {}", i, count));
}

void roundOfCalls(const Job& job, size_t bytes) {
  const Stream stream;
  const Buffer buffer(bytes);
  fill(buffer, bytes / sizeof(float), job.rank(), stream);
  job.allReduce(buffer, bytes, stream);
  expectSum(buffer, bytes / sizeof(float), stream);
}

// Issues an all-reduce to which rank 1 comes late, and runs `behind` while the stream still waits for rank 1.
template <class Body>
void behindLateCall(size_t bytes, const Body& behind) {
  const Job job;
  roundOfCalls(job, bytes);  // allocates the staging memory
  const Stream stream;
  const Buffer buffer(bytes);
  fill(buffer, bytes / sizeof(float), job.rank(), stream);
  stream.synchronize();
  job.barrier();
  if (job.rank() == 1) std::this_thread::sleep_for(kLate);
  job.allReduce(buffer, bytes, stream);
  if (job.rank() == 0 && stream.idle()) fail("the call did not wait for the late rank");
  behind(stream);
  expectSum(buffer, bytes / sizeof(float), stream);
}

void freeBehindCall(size_t bytes) {
  cuda::Address unused = 0;
  mustBeZero(gpu().api().memAlloc(&unused, bytes), "cuMemAlloc");
  behindLateCall(bytes, [&](const Stream&) { mustBeZero(gpu().api().memFree(unused), "cuMemFree"); });
}

void capture(size_t bytes) {
  const auto begin = driverFunction<int (*)(cuda::Stream, int)>("cuStreamBeginCapture_v2");
  const auto end = driverFunction<int (*)(cuda::Stream, void**)>("cuStreamEndCapture");
  if (begin == nullptr || end == nullptr) fail("the driver has no cuStreamBeginCapture_v2");
  const Job job;
  const Buffer buffer(bytes);
  {
    const Stream stream;
    mustBeZero(begin(stream.get(), cuda::kRelaxed), "cuStreamBeginCapture");
    const bpsResult_t result = bpsAllReduce(buffer.data(), buffer.data(), bytes / sizeof(float), bpsFloat32, bpsSum,
                                            job.comm(), reinterpret_cast<cudaStream_t>(stream.get()));
    const std::string why = bpsGetLastError(job.comm());
    void* graph = nullptr;
    mustBeZero(end(stream.get(), &graph), "cuStreamEndCapture");
    if (result != bpsInvalidUsage || why.find("being captured into a graph") == std::string::npos)
      fail(fmt::format("a call on a captured stream gave {} \"{}\"", static_cast<int>(result), why));
  }
  roundOfCalls(job, bytes);
}

void forkBesideComm(size_t bytes) {
  const Job job;
  roundOfCalls(job, bytes);
  const pid_t child = ::fork();
  if (child == 0) std::exit(0);  // runs the exit handlers, which must leave the parent's communicator alone
  if (child < 0) fail("fork");
  int status = 0;
  for (const auto until = Clock::now() + kChildLimit; ::waitpid(child, &status, WNOHANG) == 0;) {
    if (Clock::now() > until) {
      ::kill(child, SIGKILL);
      ::waitpid(child, &status, 0);
      fail("the child process did not exit within 20 s");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  if (status != 0) fail(fmt::format("the child process ended with wait status {}, not 0", status));
  roundOfCalls(job, bytes);
}

// ---- Scenarios by NCCL's names, which a preload library may serve

struct NcclFunctions : Nccl {
  NcclFunctions() {
    const auto find = [](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(RTLD_DEFAULT, name));
      if (function == nullptr) fail(fmt::format("NCCL has no {}", name));
    };
    find(groupStart, "ncclGroupStart");
    find(groupEnd, "ncclGroupEnd");
    find(initRankConfig, "ncclCommInitRankConfig");
    find(asyncError, "ncclCommGetAsyncError");
    find(finalize, "ncclCommFinalize");
  }
  decltype(&ncclGroupStart) groupStart = nullptr;
  decltype(&ncclGroupEnd) groupEnd = nullptr;
  decltype(&ncclCommInitRankConfig) initRankConfig = nullptr;
  decltype(&ncclCommGetAsyncError) asyncError = nullptr;
  decltype(&ncclCommFinalize) finalize = nullptr;
};

ncclUniqueId sharedId(const NcclFunctions& nccl, const Job& job) {
  ncclUniqueId id{};
  if (job.rank() == 0) nccl.check(nccl.getUniqueId(&id), "ncclGetUniqueId");
  job.share(&id, sizeof id);
  ::unsetenv("BPS_ROOT");  // BPS_ROOT belongs to this job; a preload library finds a different root
  return id;
}

// Three groups of 32 all-reduces of different sizes, which is how PyTorch's coalescing manager issues them.
void groups(size_t bytes) {
  constexpr size_t kCalls = 32;
  const NcclFunctions nccl;
  const Job job;
  ncclComm_t comm = nullptr;
  nccl.check(nccl.commInitRank(&comm, job.ranks(), sharedId(nccl, job), job.rank()), "ncclCommInitRank");
  const Stream stream;
  std::vector<std::unique_ptr<Buffer>> buffers;
  const auto count = [&](size_t call) { return bytes / sizeof(float) / (call + 1); };
  for (size_t i = 0; i < kCalls; ++i) buffers.push_back(std::make_unique<Buffer>(count(i) * sizeof(float)));
  for (int group = 0; group < 3; ++group) {
    for (size_t i = 0; i < kCalls; ++i) fill(*buffers[i], count(i), job.rank(), stream);
    nccl.check(nccl.groupStart(), "ncclGroupStart");
    for (size_t i = 0; i < kCalls; ++i)
      nccl.check(nccl.allReduce(buffers[i]->data(), buffers[i]->data(), count(i), ncclFloat32, ncclSum, comm,
                                reinterpret_cast<cudaStream_t>(stream.get())),
                 "ncclAllReduce");
    nccl.check(nccl.groupEnd(), "ncclGroupEnd");
    for (size_t i = 0; i < kCalls; ++i) expectSum(*buffers[i], count(i), stream);
  }
  nccl.check(nccl.commDestroy(comm), "ncclCommDestroy");
}

// Polls until the communicator has finished what it does. The time limit of the step ends an endless poll.
void awaitSuccess(const NcclFunctions& nccl, ncclComm_t comm, ncclResult_t started, const char* function) {
  ncclResult_t state = started;
  while (state == ncclInProgress) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    nccl.check(nccl.asyncError(comm, &state), "ncclCommGetAsyncError");
  }
  nccl.check(state, function);
}

void nonBlocking(size_t bytes) {
  const NcclFunctions nccl;
  const Job job;
  bpsConfig_t config = BPS_CONFIG_INITIALIZER;  // has the layout of ncclConfig_t
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = sharedId(nccl, job);
  auto* const given = reinterpret_cast<ncclConfig_t*>(&config);
  const ncclResult_t started = nccl.initRankConfig(&comm, job.ranks(), id, job.rank(), given);
  awaitSuccess(nccl, comm, started, "ncclCommInitRankConfig");
  const Stream stream;
  const Buffer buffer(bytes);
  const size_t count = bytes / sizeof(float);
  for (int call = 0; call < 3; ++call) {
    fill(buffer, count, job.rank(), stream);
    awaitSuccess(nccl, comm,
                 nccl.allReduce(buffer.data(), buffer.data(), count, ncclFloat32, ncclSum, comm,
                                reinterpret_cast<cudaStream_t>(stream.get())),
                 "ncclAllReduce");
    expectSum(buffer, count, stream);
  }
  awaitSuccess(nccl, comm, nccl.finalize(comm), "ncclCommFinalize");
  nccl.check(nccl.commDestroy(comm), "ncclCommDestroy");
}

}  // namespace

bool runScenario(const std::string& name, size_t bytes) {
  if (name == "first-launch") behindLateCall(bytes, firstLaunch);
  else if (name == "free") freeBehindCall(bytes);
  else if (name == "capture") capture(bytes);
  else if (name == "fork") forkBesideComm(bytes);
  else if (name == "groups") groups(bytes);
  else if (name == "non-blocking") nonBlocking(bytes);
  else return false;
  return true;
}

}  // namespace bps::test
