// The measurements of tests/gpu/run.sh that need several processes. bps-run starts the processes,
// and each process acts as a machine unless ranks of one machine are tested.
//
//   gpu_ranks figures BYTES   how long a call blocks its caller, and how much the device reduces the rate
//   gpu_ranks beside BYTES    NCCL's kernels continue while a stream waits in a call of bps
//   gpu_ranks gpu-groups BYTES    ranks of one machine combine their buffers by NCCL (gpu_groups.cc)
//   gpu_ranks failures BYTES  failures of calls that NCCL combines, with fake CUDA and NCCL (failures.cc)
//   gpu_ranks missing BYTES   NCCL waits for a rank that never joins, with fake CUDA and NCCL (failures.cc)
//   gpu_ranks first-launch|free|capture|fork|groups|non-blocking BYTES    see scenarios.h
//   gpu_ranks nccl BYTES      all-reduces by NCCL's names, which a preload library may serve
//
// Rank 0 prints a line "figure: ..." for each measurement. The exit status is 1 if a result is
// wrong, and 77 if NCCL is not installed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "src/base/format.h"
#include "tests/gpu_ranks/failures.h"
#include "tests/gpu_ranks/gpu_groups.h"
#include "tests/gpu_ranks/job.h"
#include "tests/gpu_ranks/measure.h"
#include "tests/gpu_ranks/scenarios.h"

namespace bps::test {
namespace {

// ---- figures

// The first iteration is not counted, because it connects and allocates the staging memory.
void callLatencies(const Job& job, const Buffer& buffer, size_t most) {
  const Stream stream;
  double worst = 0;
  std::string each;
  for (const size_t bytes : {size_t{8}, size_t{64} << 10, size_t{1} << 20, most / 4, most}) {
    std::vector<double> micros;
    for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
      job.barrier();
      const double took = timed([&] { job.allReduce(buffer, bytes, stream); });
      if (repetition > 0) micros.push_back(took * 1e6);
      stream.synchronize();
    }
    worst = std::max(worst, median(micros));
    each += fmt::format("{}{} B {:.1f}", each.empty() ? "" : ", ", bytes, median(micros));
  }
  reportFigure(job, fmt::format("a call keeps its caller for at most {:.1f} us (medians of {}: {} us); {}", worst,
                                kRepetitions, each, worst < 50 ? "met" : "missed"));
}

void rates(const Job& job, const Buffer& buffer, size_t bytes) {
  const Stream stream;
  const auto gigabytes = [&](const std::vector<double>& seconds) {
    return static_cast<double>(bytes) / median(seconds) / 1e9;
  };
  std::vector<double> device, host, copy, share;
  for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
    job.barrier();
    const double onDevice = timed([&] {
      job.allReduce(buffer, bytes, stream);
      stream.synchronize();
    });
    job.barrier();
    const double onHost = timed([&] { job.allReduceOnHost(buffer.onHost(), bytes); });
    job.barrier();  // all ranks copy at the same time, as in a call
    const double copied = timed([&] {
      buffer.download(stream, bytes);
      stream.synchronize();
    });
    if (repetition == 0) continue;
    device.push_back(onDevice);
    host.push_back(onHost);
    copy.push_back(copied);
    share.push_back(std::max(onHost, copied) / onDevice);
  }
  std::sort(share.begin(), share.end());
  reportFigure(
      job, fmt::format("{} B: on the device {:.2f} GB/s, host buffers {:.2f}, one copy {:.2f}; of the slower of the "
                       "two {:.2f} ({:.2f}-{:.2f}, {} turns); {}",
                       bytes, gigabytes(device), gigabytes(host), gigabytes(copy), median(share), share.front(),
                       share.back(), kRepetitions, median(share) >= 0.9 ? "met" : "missed"));
}

void figures(size_t most) {
  const Job job;
  const Buffer buffer(most);
  {
    const Stream stream;
    buffer.upload(stream);  // zeros
    stream.synchronize();
  }
  callLatencies(job, buffer, most);
  rates(job, buffer, most / 4);
  rates(job, buffer, most);
}

// ---- NCCL

class NcclRanks {
 public:
  NcclRanks(const Nccl& nccl, const Job& job, size_t bytes)
      : nccl_(nccl), rank_(job.rank()), ranks_(job.ranks()), count_(bytes / sizeof(float)), buffer_(bytes) {
    if (rank_ == 0) nccl_.check(nccl_.getUniqueId(&id_), "ncclGetUniqueId");
    job.share(&id_, sizeof id_);
  }
  ~NcclRanks() { (void)nccl_.commDestroy(comm_); }
  NcclRanks(const NcclRanks&) = delete;
  NcclRanks& operator=(const NcclRanks&) = delete;

  void start() { nccl_.check(nccl_.commInitRank(&comm_, ranks_, id_, rank_), "ncclCommInitRank"); }

  // Sums over all ranks by NCCL. If there are two ranks, checks that the sum has the right bits.
  void allReduce(const Stream& stream) const {
    for (size_t i = 0; i < count_; ++i) buffer_.floats()[i] = inputValue(i, rank_);
    buffer_.upload(stream);
    call(stream);
    buffer_.download(stream);
    stream.synchronize();
    for (size_t i = 0; ranks_ == 2 && i < count_; ++i)
      if (buffer_.floats()[i] != inputValue(i, 0) + inputValue(i, 1)) fail(fmt::format("element {} of {}", i, count_));
  }
  double time(const Stream& stream) const {
    return timed([&] {
      call(stream);
      stream.synchronize();
    });
  }

 private:
  void call(const Stream& stream) const {
    auto* const handle = reinterpret_cast<cudaStream_t>(stream.get());
    nccl_.check(nccl_.allReduce(buffer_.data(), buffer_.data(), count_, ncclFloat32, ncclSum, comm_, handle),
                "ncclAllReduce");
  }
  const Nccl& nccl_;
  int rank_, ranks_;
  size_t count_;
  Buffer buffer_;
  ncclUniqueId id_{};
  ncclComm_t comm_ = nullptr;
};

// Rank 0's stream blocks in a call of bps that the other ranks have not made. Meanwhile, NCCL's
// calls on another stream must complete.
void concurrentWithNccl(size_t bytes) {
  const Nccl nccl;
  const Job job;
  NcclRanks ranks(nccl, job, std::min<size_t>(bytes, 1U << 20));
  ranks.start();
  const Stream waiting, stream;
  const Buffer ours(bytes);
  job.allReduce(ours, bytes, waiting);  // this call allocates the staging memory
  waiting.synchronize();
  std::vector<double> alone, meanwhile;
  for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
    const double took = ranks.time(stream);
    if (repetition > 0) alone.push_back(took * 1e6);
  }
  job.barrier();
  if (job.rank() == 0) job.allReduce(ours, bytes, waiting);
  for (int repetition = 0; repetition < kRepetitions; ++repetition) meanwhile.push_back(ranks.time(stream) * 1e6);
  if (job.rank() == 0 && waiting.idle()) fail("the call of bps did not wait for the other ranks");
  ranks.allReduce(stream);
  if (job.rank() != 0) job.allReduce(ours, bytes, waiting);
  waiting.synchronize();
  ranks.allReduce(stream);
  reportFigure(
      job, fmt::format("NCCL's all-reduces beside a call of bps that waits: {:.0f} us (median of {}), without {:.0f} "
                       "us; met",
                       median(meanwhile), kRepetitions, median(alone)));
}

void byNccl(size_t bytes) {
  const Nccl nccl;
  const auto job = std::make_unique<Job>();
  NcclRanks ranks(nccl, *job, bytes);
  ::unsetenv("BPS_ROOT");  // BPS_ROOT belongs to this job; a preload library finds a different root
  ranks.start();
  const Stream stream;
  ranks.allReduce(stream);
  std::vector<double> times;
  for (int repetition = 0; repetition <= kRepetitions; ++repetition) {
    job->barrier();
    const double took = ranks.time(stream);
    if (repetition > 0) times.push_back(took * 1e3);
  }
  int version = 0;
  nccl.check(nccl.getVersion(&version), "ncclGetVersion");
  ranks.allReduce(stream);
  reportFigure(*job, fmt::format("{} B in {:.2f} ms ({:.2f}-{:.2f}, median of {}), right bits; NCCL {}", bytes,
                                 median(times), *std::min_element(times.begin(), times.end()),
                                 *std::max_element(times.begin(), times.end()), kRepetitions, version));
}

}  // namespace
}  // namespace bps::test

int main(int argc, char** argv) {
  const std::string what = argc == 3 ? argv[1] : "";
  const size_t bytes = argc == 3 ? std::strtoull(argv[2], nullptr, 10) : 0;
  if (bytes < 1U << 12)
    return std::fprintf(
               stderr,
               "usage: gpu_ranks figures|beside|gpu-groups|failures|missing|nccl|SCENARIO BYTES (at least 4096)\n"),
           2;
  if (what == "figures") bps::test::figures(bytes);
  else if (what == "beside") bps::test::concurrentWithNccl(bytes);
  else if (what == "gpu-groups") bps::test::gpuGroups(bytes);
  else if (what == "failures") bps::test::failures(bytes);
  else if (what == "missing") bps::test::missingRank(bytes);
  else if (what == "nccl") bps::test::byNccl(bytes);
  else if (!bps::test::runScenario(what, bytes))
    return std::fprintf(stderr, "gpu_ranks: %s is not known\n", argv[1]), 2;
  return 0;
}
