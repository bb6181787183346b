#include "tests/gpu_ranks/failures.h"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "src/base/format.h"
#include "tests/fake_cuda/fake_cuda.h"
#include "tests/fake_nccl/fake_nccl.h"
#include "tests/gpu_ranks/job.h"

namespace bps::test {
namespace {

constexpr std::chrono::milliseconds kPollInterval(1);

template <class Function>
Function* fakeSymbol(const char* library, const char* name) {
  void* handle = ::dlopen(library, RTLD_NOW);
  void* function = handle != nullptr ? ::dlsym(handle, name) : nullptr;
  if (function == nullptr) fail(fmt::format("{} has no {}: not a double", library, name));
  return reinterpret_cast<Function*>(function);
}

void failNccl(const char* name, ncclResult_t result, unsigned after = 1) {
  static const auto set = fakeSymbol<decltype(fakeNcclFail)>(std::getenv("BPS_NCCL_LIB_PATH"), "fakeNcclFail");
  set(name, result, after);
}

void failCuda(const char* name, unsigned after) {
  constexpr int kIllegalAddress = 700;
  static const auto set = fakeSymbol<decltype(fakeCudaFail)>("libcuda.so.1", "fakeCudaFail");
  set(name, after, kIllegalAddress);
}

// Returns the path of a marker file. The ranks of this job synchronize by such files, because their
// communicator may have failed.
std::string markerPath(const std::string& what) {
  return fmt::format("{}/{}.{}", std::getenv("FAKE_NCCL_DIR"), ::getppid(), what);
}
void setMarker(const std::string& what) { std::ofstream(markerPath(what)) << 1; }
void waitForMarker(const std::string& what) {
  while (!std::filesystem::exists(markerPath(what))) std::this_thread::sleep_for(kPollInterval);
}
// Waits for all ranks. This barrier also works for ranks whose calls fail at once.
void barrier(const Job& job, const std::string& where) {
  setMarker(fmt::format("{}.{}", where, job.rank()));
  for (int rank = 0; rank < job.ranks(); ++rank) waitForMarker(fmt::format("{}.{}", where, rank));
}

bpsResult_t call(const Job& job, const Buffer& buffer, size_t bytes, const Stream& stream) {
  auto* const handle = reinterpret_cast<cudaStream_t>(stream.get());
  return bpsAllReduce(buffer.data(), buffer.data(), bytes / sizeof(float), bpsFloat32, bpsSum, job.comm(), handle);
}

bpsResult_t asyncError(const Job& job) {
  bpsResult_t state = bpsSuccess;
  if (bpsCommGetAsyncError(job.comm(), &state) != bpsSuccess) fail("bpsCommGetAsyncError");
  return state;
}

void expect(bool right, const std::string& what) {
  if (!right) fail(what);
}

void expectError(const Job& job, bpsResult_t expected, const std::string& text) {
  bpsResult_t error = asyncError(job);
  for (; error == bpsSuccess; error = asyncError(job)) std::this_thread::sleep_for(kPollInterval);
  const std::string why = bpsGetLastError(job.comm());
  expect(error == expected && why.find(text) != std::string::npos,
         fmt::format("{} \"{}\" instead of {} \"{}\"", static_cast<int>(error), why, static_cast<int>(expected), text));
}

void fill(const Buffer& buffer, size_t bytes, const Stream& stream) {
  for (size_t i = 0; i < bytes / sizeof(float); ++i) buffer.floats()[i] = 1;
  buffer.upload(stream);
  stream.synchronize();
}

// Checks that the stream of a failed call blocks until the abort. If the call ended before the
// failure, checks instead that the sum is right.
void expectStillBlocked(const Buffer& buffer, size_t bytes, const Stream& stream) {
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  if (!stream.idle()) return;
  buffer.download(stream);
  stream.synchronize();
  for (size_t i = 0; i < bytes / sizeof(float); ++i)
    expect(buffer.floats()[i] == 4, "the call has ended, and is wrong");
}

// A call that this rank has issued. `called` is the result of the call, which may be refused if
// another rank has already reported the failure. In expectErrorOnAll(), ranks 0 and 3 ask for
// errors. The other ranks only end the communicator and then receive the failure.
struct IssuedCall {
  const Buffer& buffer;
  size_t bytes;
  const Stream& stream;
  bpsResult_t called;
};
void expectErrorOnAll(Job& job, const IssuedCall& made, bpsResult_t expected, const std::string& text,
                      const std::string& where) {
  if (job.rank() % 3 == 0) {
    expectError(job, expected, text);
    setMarker(where + ".error");
  }
  waitForMarker(where + ".error");
  const auto& [buffer, bytes, stream, called] = made;
  if (called == bpsSuccess) expectStillBlocked(buffer, bytes, stream);
  else expect(called == expected, fmt::format("the call returned {}", static_cast<int>(called)));
  barrier(job, where + ".stood");
  if (job.rank() % 3 != 0) expect(bpsCommFinalize(job.comm()) == expected, "bpsCommFinalize did not tell of it");
  job.abort();
  stream.synchronize();
}

// NCCL refuses a call on the last rank. It refuses the call at once, or after the first half of the
// call has been issued.
void ncclRejectsCall(size_t bytes, const char* function) {
  Job job;
  const Stream stream;
  const Buffer buffer(bytes);
  fill(buffer, bytes, stream);
  barrier(job, function);
  const bool refused = job.rank() + 1 == job.ranks();
  if (refused) failNccl(function, ncclSystemError);
  const bpsResult_t called = call(job, buffer, bytes, stream);
  if (refused) expect(called == bpsSystemError, fmt::format("{}: {}", function, static_cast<int>(called)));
  expectErrorOnAll(job, {buffer, bytes, stream, called}, bpsSystemError, "rank 3", function);
}

// The copy of a part fails on the last rank. No other rank may take the failed part for a sum:
// neither the rank of the other machine that sums this part, nor the ranks that gather it.
void partFails(size_t bytes) {
  Job job;
  const Stream stream;
  const Buffer buffer(bytes);
  fill(buffer, bytes, stream);
  barrier(job, "whole");
  if (job.rank() + 1 == job.ranks()) failCuda("cuMemcpyAsync", 1);
  const bpsResult_t called = call(job, buffer, bytes, stream);
  expectErrorOnAll(job, {buffer, bytes, stream, called}, bpsUnhandledCudaError, "cuMemcpyAsync", "part");
}

// An asynchronous NCCL error reaches every rank at once, whether the rank asks for errors or waits
// for its calls to end.
void ncclReportsAsyncError(size_t bytes, bool polls) {
  const std::string where = polls ? "asked" : "waited";
  Job job;
  const Stream stream;
  const Buffer buffer(bytes);
  barrier(job, where);
  if (job.rank() < 2) (void)call(job, buffer, bytes, stream);  // the ranks of the other machine make no call
  barrier(job, where + ".called");
  if (job.rank() == 1) {
    failNccl("ncclCommGetAsyncError", ncclInternalError);
    const bpsResult_t result = polls ? asyncError(job) : bpsCommFinalize(job.comm());
    expect(result == bpsInternalError, fmt::format("{}: {}", where, static_cast<int>(result)));
  }
  expectError(job, bpsInternalError, "rank 1");
  barrier(job, where + ".result");
  job.abort();
  stream.synchronize();
}

// A second thread waits in bpsCommFinalize() for calls that never end by themselves. An abort makes
// bpsCommFinalize() return.
void abortWhileFinalizing(size_t bytes) {
  Job job;
  const Stream stream;
  const Buffer buffer(bytes);
  barrier(job, "running");
  if (job.rank() < 2) {  // the ranks of the other machine make no call
    (void)call(job, buffer, bytes, stream);
    std::atomic<bool> finalizing{false};
    std::thread finalizer([&] {
      finalizing = true;
      expect(bpsCommFinalize(job.comm()) != bpsInvalidArgument, "it was freed meanwhile");
    });
    while (!finalizing) std::this_thread::yield();
    // bpsCommFinalize() must begin before the abort, because it would be refused afterwards.
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    job.abort();
    finalizer.join();
    stream.synchronize();
  }
  barrier(job, "aborted");
  if (job.rank() >= 2) job.abort();
}

// The last rank dies. Rank 2, its neighbour, only waits for its own calls in bpsCommFinalize() and
// receives the failure. Rank 1 asks for errors, and rank 0 destroys the communicator.
void death(size_t bytes) {
  Job job;
  const Stream stream;
  const Buffer buffer(bytes);
  fill(buffer, bytes, stream);
  barrier(job, "alive");
  if (job.rank() == 3) ::_exit(0);
  const bpsResult_t called = call(job, buffer, bytes, stream);
  if (job.rank() == 1) expectError(job, bpsRemoteError, "");
  if (job.rank() == 1) setMarker("dead");
  waitForMarker("dead");
  if (called == bpsSuccess) expectStillBlocked(buffer, bytes, stream);
  if (job.rank() == 2) expect(bpsCommFinalize(job.comm()) == bpsRemoteError, "bpsCommFinalize did not tell of it");
  if (job.rank() == 0) expect(job.destroy() == bpsRemoteError, "bpsCommDestroy did not tell of it");
  else job.abort();
  stream.synchronize();
}

}  // namespace

void failures(size_t bytes) {
  const int rank = std::atoi(std::getenv("BPS_RANK"));
  chooseGpu(rank % 2);
  const auto step = [rank](const char* what) {
    if (rank == 0) std::fprintf(stderr, "%s\n", what);
  };
  step("NCCL refuses");
  for (const char* function : {"ncclReduceScatter", "ncclAllGather"}) ncclRejectsCall(bytes, function);
  step("a part fails");
  partFails(bytes);
  step("NCCL tells of an error");
  for (const bool polls : {true, false}) ncclReportsAsyncError(bytes, polls);
  step("an abort while another thread finalizes");
  abortWhileFinalizing(bytes);
  step("a death");
  death(bytes);
}

void missingRank(size_t bytes) {
  const int rank = std::atoi(std::getenv("BPS_RANK"));
  chooseGpu(rank);
  (void)gpu();
  if (rank == 1) failNccl("ncclCommInitRankConfig", ncclSystemError);
  const Job job;
  const Stream stream;
  const Buffer buffer(bytes);
  for (size_t i = 0; i < bytes / sizeof(float); ++i) buffer.floats()[i] = 1;
  buffer.upload(stream);
  expect(call(job, buffer, bytes, stream) == bpsSuccess, bpsGetLastError(job.comm()));
  buffer.download(stream);
  stream.synchronize();
  for (size_t i = 0; i < bytes / sizeof(float); ++i) expect(buffer.floats()[i] == 2, "a wrong sum");
}

}  // namespace bps::test
