#include "tests/gpu_ranks/gpu_groups.h"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <thread>

#include "src/base/format.h"
#include "tests/fake_nccl/fake_nccl.h"
#include "tests/gpu_ranks/measure.h"

namespace bps::test {
namespace {

// Returns the names of the NCCL calls since this function was last called. Only the fake NCCL
// reports its calls; a real NCCL gives an empty text.
std::string takeNcclCalls() {
  const char* path = std::getenv("BPS_NCCL_LIB_PATH");
  void* nccl = ::dlopen(path != nullptr ? path : "libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  const auto calls =
      reinterpret_cast<decltype(&fakeNcclCalls)>(nccl != nullptr ? ::dlsym(nccl, "fakeNcclCalls") : nullptr);
  const auto forget =
      reinterpret_cast<decltype(&fakeNcclClearCalls)>(nccl != nullptr ? ::dlsym(nccl, "fakeNcclClearCalls") : nullptr);
  if (calls == nullptr || forget == nullptr) return {};
  std::string text = calls();
  forget();
  return text;
}

void fill(const Job& job, const Buffer& buffer, size_t count, const Stream& stream) {
  for (size_t i = 0; i < count; ++i) buffer.floats()[i] = inputValue(i, job.rank());
  buffer.upload(stream);
}

// Adds the two values of each machine with one rounding, then adds the machines' sums in order.
float sumOf(const Job& job, size_t index) {
  float sum = inputValue(index, 0) + inputValue(index, 1);
  for (int rank = 2; rank < job.ranks(); rank += 2) sum += inputValue(index, rank) + inputValue(index, rank + 1);
  return sum;
}

void expectSums(const Job& job, const Buffer& buffer, size_t count, const Stream& stream) {
  buffer.download(stream);
  stream.synchronize();
  for (size_t i = 0; i < count; ++i)
    if (buffer.floats()[i] != sumOf(job, i))
      fail(fmt::format("element {} of {} is {}, not {}", i, count, buffer.floats()[i], sumOf(job, i)));
}

// Issues small and large calls of odd sizes on two streams before it waits for any of these calls.
void manyCalls(const Job& job, size_t bytes) {
  const Stream one, two;
  std::vector<size_t> counts;
  for (const size_t size : {size_t{64}, bytes, bytes / 4 + 4, bytes / 2 + 12, size_t{1} << 16, bytes})
    counts.push_back(size / sizeof(float));
  std::vector<std::unique_ptr<Buffer>> buffers;
  for (const size_t count : counts) {
    buffers.push_back(std::make_unique<Buffer>(count * sizeof(float)));
    fill(job, *buffers.back(), count, buffers.size() % 2 == 0 ? one : two);
  }
  for (size_t i = 0; i < counts.size(); ++i)
    job.allReduce(*buffers[i], counts[i] * sizeof(float), i % 2 == 0 ? two : one);
  for (size_t i = 0; i < counts.size(); ++i) expectSums(job, *buffers[i], counts[i], i % 2 == 0 ? two : one);
}

// Checks that destroying the communicator waits for its calls, including the NCCL calls inside
// them.
void destroyWaitsForCalls(size_t bytes) {
  auto job = std::make_unique<Job>();
  const Stream stream;
  const Buffer buffer(bytes);
  fill(*job, buffer, bytes / sizeof(float), stream);
  job->allReduce(buffer, bytes, stream);
  job->end();
  expectSums(*job, buffer, bytes / sizeof(float), stream);
}

double milliseconds(const Job& job, size_t bytes) {
  const Stream stream;
  const Buffer buffer(bytes);
  std::vector<double> times;
  for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
    job.barrier();
    const double took = timed([&] {
      job.allReduce(buffer, bytes, stream);
      stream.synchronize();
    });
    if (repetition > 0) times.push_back(took * 1e3);
  }
  return median(times);
}

bpsResult_t awaitFailure(const Job& job) {
  for (bpsResult_t state = bpsSuccess;; std::this_thread::sleep_for(std::chrono::milliseconds(1)))
    if (bpsCommGetAsyncError(job.comm(), &state) != bpsSuccess || state != bpsSuccess) return state;
}

// Checks that this rank receives the failure, and that the stream continues after the communicator
// is aborted.
void expectFailure(Job& job, const Stream& stream, bpsResult_t expected, const char* text) {
  const bpsResult_t failed = awaitFailure(job);
  const std::string why = bpsGetLastError(job.comm());
  if (failed != expected || why.find(text) == std::string::npos)
    fail(
        fmt::format("{} \"{}\" instead of {} \"{}\"", static_cast<int>(failed), why, static_cast<int>(expected), text));
  job.abort();
  stream.synchronize();
}

void call(const Job& job, void* data, size_t bytes, const Stream& stream) {
  auto* const handle = reinterpret_cast<cudaStream_t>(stream.get());
  (void)bpsAllReduce(data, data, bytes / sizeof(float), bpsFloat32, bpsSum, job.comm(), handle);
}

void otherCalls(size_t bytes) {
  Job job;
  const Stream stream;
  const Buffer buffer(bytes);
  call(job, buffer.data(), job.rank() == 1 ? bytes / 2 : bytes, stream);
  expectFailure(job, stream, bpsInvalidUsage, "ranks disagree");
}

// The last rank's buffer is in host memory, so that local GPU groups can carry out only the other
// ranks' calls.
void otherMemory(size_t bytes) {
  Job job;
  const Stream stream;
  const Buffer buffer(bytes);
  std::vector<float> pageable(bytes / sizeof(float));
  call(job, job.rank() + 1 == job.ranks() ? static_cast<void*>(pageable.data()) : buffer.data(), bytes, stream);
  expectFailure(job, stream, bpsInvalidUsage, "by NCCL inside machines");
}

void death(size_t bytes) {
  Job job;
  const Stream stream;
  const Buffer buffer(bytes);
  // After this call, every rank knows that all ranks have started. Only then may a rank die.
  float nothing = 0;
  (void)bpsAllReduce(&nothing, &nothing, 1, bpsFloat32, bpsSum, job.comm(), job.hostStream());
  (void)bpsHostStreamSynchronize(job.hostStream());
  if (job.rank() + 1 == job.ranks()) ::_exit(0);
  call(job, buffer.data(), bytes, stream);
  expectFailure(job, stream, bpsRemoteError, "");
}

}  // namespace

void gpuGroups(size_t bytes) {
  const int rank = std::atoi(std::getenv("BPS_RANK") != nullptr ? std::getenv("BPS_RANK") : "0");
  chooseGpu(rank % 2);
  bool combined = false;
  double together = 0;
  {
    const Job job;
    (void)takeNcclCalls();
    manyCalls(job, bytes);
    const std::string calls = takeNcclCalls();
    combined = calls.find("ncclReduceScatter") != std::string::npos || calls.find("ncclAllReduce") != std::string::npos;
    together = milliseconds(job, bytes);
  }
  if (std::getenv("GPU_TEST_COMBINES") != nullptr && !combined) fail("NCCL was not asked");
  destroyWaitsForCalls(bytes);
  ::setenv("BPS_NCCL_LOCAL", "off", 1);
  (void)takeNcclCalls();
  {
    const Job job;
    const double alone = milliseconds(job, bytes);
    if (!takeNcclCalls().empty()) fail("NCCL was asked");
    reportFigure(job, fmt::format("{} B, {} ranks: by NCCL inside machines, where it could, {:.2f} ms, with "
                                  "BPS_NCCL_LOCAL=off {:.2f} (medians of {})",
                                  bytes, job.ranks(), together, alone, kRepetitions));
  }
  ::unsetenv("BPS_NCCL_LOCAL");
  otherCalls(bytes);
  if (combined) otherMemory(bytes);
  death(bytes);
}

}  // namespace bps::test
