#include "perf/workload/passes.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstring>

#include "cpu_reduce/reduce.h"
#include "src/base/format.h"

namespace bps::perf {
namespace {

Status oneIteration(std::span<const Call> calls, bpsRedOp_t op, Runner& runner) {
  for (const Call& call : calls) BPS_TRY(runner.allReduce(call.send, call.recv, call.count, call.type, op));
  return runner.synchronize();
}

}  // namespace

Result<Timing> measure(std::span<const Call> calls, const WorkloadOptions& options, Runner& runner) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  const int iterations = std::max(1, options.iterations);
  for (int i = -std::max(0, options.warmup); i < iterations; ++i) {
    const auto start = Clock::now();
    BPS_TRY(oneIteration(calls, options.op, runner));
    const std::chrono::duration<double> mine = Clock::now() - start;
    // This reduction also makes all ranks start the next iteration together.
    const double slowest = BPS_TRY(runner.maxOverRanks(mine.count()));
    if (i >= 0) seconds.push_back(slowest);
  }
  std::nth_element(seconds.begin(), seconds.begin() + iterations / 2, seconds.end());
  Timing timing{seconds[static_cast<size_t>(iterations) / 2], 0, calls.size()};
  for (const Call& call : calls) timing.bytes += call.count * elementBytes(static_cast<DataType>(call.type));
  return timing;
}

void print(const Runner& runner, const std::string& text) {
  if (runner.rank() != 0) return;
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

std::string passHeader() {
  return fmt::format("# {:<18} {:>8} {:>14} {:>12} {:>10}\n", "pass", "calls", "bytes", "time (ms)", "GB/s");
}

std::string passRow(const std::string& pass, const Timing& timing) {
  return fmt::format("  {:<18} {:>8} {:>14} {:>12.3f} {:>10.3f}\n", pass, timing.calls, timing.bytes,
                     timing.seconds * 1e3, timing.gigabytesPerSecond());
}

void Checksum::mixIn(uint64_t word) {
  state_ = std::rotl(state_ ^ (word * 0x9e3779b97f4a7c15U), 29) * 0xd6e8feb86659fd93U + 0x52dce729;
}

void Checksum::add(std::span<const uint8_t> bytes) {
  mixIn(bytes.size());
  for (; bytes.size() >= sizeof(uint64_t); bytes = bytes.subspan(sizeof(uint64_t))) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof word);
    mixIn(word);
  }
  uint64_t tail = 0;
  if (!bytes.empty()) std::memcpy(&tail, bytes.data(), bytes.size());
  mixIn(tail);
}

uint64_t Checksum::value() const {
  uint64_t x = state_;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93U;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93U;
  return x ^ (x >> 32);
}

}  // namespace bps::perf
