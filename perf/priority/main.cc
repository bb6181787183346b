// One rank of perf/priority_bench, in the environment of bpsCommInitFromEnv. It all-reduces large buffers and, a while
// later, an urgent one, as data-parallel training does with the gradients of the last and the first layers.
//
// Usage: priority-ranks LARGE_BYTES LARGE_CALLS URGENT_BYTES DELAY_MS ITERATIONS
//
// Every iteration makes these calls in three ways: on one communicator, on two communicators of the same priority, and
// on two of which the urgent one has the higher priority. Rank 0 prints "WAY URGENT_SECONDS TOTAL_SECONDS" for each of
// them, with the times of the slowest rank. A wrong sum or a failed call ends the process with status 1.
#include <bps/bps.h>
#include <bps/bps_ext.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

void require(bool holds, const char* what) {
  if (holds) return;
  std::printf("%s: %s\n", what, bpsGetLastError(nullptr));
  std::exit(1);
}
void check(bpsResult_t result, const char* what) { require(result == bpsSuccess, what); }

struct Options {
  size_t largeBytes = 0, largeCalls = 0, urgentBytes = 0, delayMs = 0, iterations = 0;
};

// A buffer whose contribution and sum differ from element to element.
class Buffer {
 public:
  Buffer(size_t bytes, uint32_t seed, int rank) : seed_(seed), send_(bytes / sizeof(uint32_t)), sum_(send_.size()) {
    for (size_t i = 0; i < send_.size(); ++i) send_[i] = static_cast<uint32_t>(rank + 1) * base(i);
  }
  void allReduce(bpsComm_t comm, bpsHostStream_t stream) {
    std::fill(sum_.begin(), sum_.end(), 0U);
    check(bpsAllReduce(send_.data(), sum_.data(), sum_.size(), bpsUint32, bpsSum, comm, stream), "bpsAllReduce");
  }
  void checkSum(int ranks) const {
    const auto weights = static_cast<uint32_t>(ranks * (ranks + 1) / 2);
    for (size_t i = 0; i < sum_.size(); ++i) require(sum_[i] == weights * base(i), "wrong sum");
  }

 private:
  uint32_t base(size_t i) const { return seed_ * 7919 + static_cast<uint32_t>(i) * 2654435761U; }

  uint32_t seed_;
  std::vector<uint32_t> send_, sum_;
};

class Rank {
 public:
  explicit Rank(const Options& options) : options_(options) {
    check(bpsCommInitFromEnv(&comm_), "start");
    check(bpsCommUserRank(comm_, &rank_), "bpsCommUserRank");
    check(bpsCommCount(comm_, &ranks_), "bpsCommCount");
    check(bpsCommSplit(comm_, 0, rank_, &urgentComm_, nullptr), "bpsCommSplit");
    for (bpsHostStream_t* stream : {&stream_, &urgentStream_}) check(bpsHostStreamCreate(stream), "stream");
    urgent_.emplace(options.urgentBytes, 0, rank_);
    for (size_t i = 0; i < options.largeCalls; ++i)
      large_.emplace_back(options.largeBytes, static_cast<uint32_t>(i + 1), rank_);
  }
  ~Rank() {
    bpsCommDestroy(urgentComm_);
    bpsCommDestroy(comm_);
  }

  void run() {
    for (size_t i = 0; i < options_.iterations; ++i) {
      iteration("one", comm_, 0);
      iteration("two", urgentComm_, 0);
      iteration("priority", urgentComm_, 1);
    }
  }

 private:
  void iteration(const char* way, bpsComm_t urgentComm, int priority) {
    check(bpsCommSetPriority(urgentComm_, priority), "bpsCommSetPriority");
    slowest({0, 0});  // all ranks begin together
    const auto start = Clock::now();
    for (Buffer& buffer : large_) buffer.allReduce(comm_, stream_);
    std::this_thread::sleep_until(start + std::chrono::milliseconds(options_.delayMs));
    const auto asked = Clock::now();
    urgent_->allReduce(urgentComm, urgentStream_);
    check(bpsHostStreamSynchronize(urgentStream_), "urgent call");
    const auto ready = Clock::now();
    check(bpsHostStreamSynchronize(stream_), "large calls");
    const auto end = Clock::now();
    const auto times = slowest({seconds(ready - asked), seconds(end - start)});
    if (rank_ == 0) std::printf("%s %.6f %.6f\n", way, times[0], times[1]);
    std::fflush(stdout);
    urgent_->checkSum(ranks_);
    for (const Buffer& buffer : large_) buffer.checkSum(ranks_);
  }
  static double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }
  std::array<double, 2> slowest(std::array<double, 2> times) {
    check(bpsAllReduce(times.data(), times.data(), 2, bpsFloat64, bpsMax, comm_, stream_), "bpsAllReduce");
    check(bpsHostStreamSynchronize(stream_), "times");
    return times;
  }

  const Options options_;
  int rank_ = 0, ranks_ = 0;
  bpsComm_t comm_ = nullptr, urgentComm_ = nullptr;
  bpsHostStream_t stream_ = nullptr, urgentStream_ = nullptr;
  std::vector<Buffer> large_;
  std::optional<Buffer> urgent_;  // made when the rank is known
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::puts("usage: priority-ranks LARGE_BYTES LARGE_CALLS URGENT_BYTES DELAY_MS ITERATIONS");
    return 2;
  }
  const auto number = [argv](int i) { return static_cast<size_t>(std::strtoull(argv[i], nullptr, 10)); };
  Rank({number(1), number(2), number(3), number(4), number(5)}).run();
  return 0;
}
